import type { ShownRun } from "./shown_run.ts";

/** Most agents that are named. */
const MAX_NAMED = 3;

/** What keeps a run from being what another one was, as sentences: `b` is `a`, asked again. */
export function replayNotes(a: ShownRun, b: ShownRun, addedSeed: string | undefined): string[] {
  const notes: string[] = [];
  if (a.graph === b.graph && a.graph_hash !== b.graph_hash) {
    const [then, now] = [a, b].map(({ graph_hash: hash }) => hash ?? "unknown");
    notes.push(
      `${b.graph} is configured otherwise than in A: its agents, prompts or parameters have changed (${then}, now ${now})`,
    );
  }
  if (addedSeed !== undefined) {
    notes.push(
      `A was asked without a seed: B has ${addedSeed}, by which A's early exits drew, and its last agent samples by it`,
    );
  }
  const unseeded = b.agents.filter(({ sampling }) => sampling?.seed === null && sampling.temperature !== 0);
  if (unseeded.length > 0) {
    const named = unseeded.slice(0, MAX_NAMED).map(({ id }) => id).join(", ");
    const more = unseeded.length > MAX_NAMED ? ", …" : "";
    notes.push(
      `${unseeded.length} of ${b.agents.length} agents sample without a seed (${named}${more}): what they say ` +
        "may change from run to run; give them a sampling.seed, or temperature 0",
    );
  } else if (b.agents.every(({ sampling }) => isSet(sampling))) {
    notes.push("All agents have a seed, or temperature 0: engines that batch may still answer otherwise");
  }
  return notes;
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}
