import type { AgentView } from "./run_view.ts";

/** Who was asked in an agent's own model's place, and why, as a sentence; undefined where nobody was. */
export function fallbackWords({ model, phase, fallback }: AgentView): string | undefined {
  if (fallback === undefined) return undefined;
  const done = phase === "done" ? "Answered by" : "Asked of";
  const error = fallback.error === "" ? "" : `: ${fallback.error}`;
  return `${done} ${fallback.model}, because ${fallbackReasonWords(model, fallback.reason)}${error}`;
}

function fallbackReasonWords(model: string, reason: string): string {
  switch (reason) {
    case "no_worker":
      return `no worker of ${model} could take it`;
    case "full":
      return `all workers of ${model} were full`;
    case "failed":
      return `all attempts at workers of ${model} failed`;
    default:
      return `${model} could not answer (${reason})`;
  }
}

/** What became of an agent's second attempt, as a sentence with `time` for its times; undefined where it had none. */
export function hedgeWords(
  { hedge }: Pick<AgentView, "hedge">,
  time: (ms: number | undefined) => string,
): string | undefined {
  if (hedge === undefined) return undefined;
  const { worker, startedMs, endedMs, outcome, tokens } = hedge;
  const end = endedMs === undefined ? "" : ` to ${time(endedMs)}`;
  const wrote = tokens === undefined ? "" : `, ${tokens} tokens`;
  return `Second attempt on ${worker} from ${time(startedMs)}${end}${wrote}: ${outcomeWords(outcome)}`;
}

function outcomeWords(outcome: string): string {
  switch (outcome) {
    case "":
      return "under way";
    case "won":
      return "won, its answer is the agent's";
    case "lost":
      return "lost, the first attempt was faster or the agent was not needed any more";
    default:
      return outcome;
  }
}
