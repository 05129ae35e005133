import { criticalAgents } from "./gantt.ts";
import { usageOfAgent } from "./run_usage_view.ts";
import type { AgentView, RunView, TimeSpan } from "./run_view.ts";

/** What overlap and exits did for the time of a run, as far as its record tells; all in ms. */
export interface TimeFigures {
  /** Measured, summed over the agents that the run waited for: from the last answer that one reads to its first token. */
  readonly handOverMs: number | undefined;
  /** Measured: time in which these agents' prompts were read ahead while what they read was still being written. */
  readonly aheadMs: number | undefined;
  /** Estimate: how much later the answer would have come had nobody been cut off; undefined where the record does not tell. */
  readonly sparedMs: number | undefined;
}

/** The figures of an ended run. */
export function timeFigures(run: RunView): TimeFigures {
  const byId = new Map(run.agents.map((agent) => [agent.id, agent]));
  const path = criticalAgents(run).flatMap((id) => byId.get(id) ?? []);
  const pairs = path.slice(1).map((agent, at) => ({ agent, readyMs: path[at]?.endedMs ?? 0 }));
  const gaps = pairs.map(({ agent: { firstTokenMs }, readyMs }) =>
    firstTokenMs === undefined ? undefined : Math.max(0, firstTokenMs - readyMs)
  );
  return {
    handOverMs: pairs.length === 0 ? undefined : sumOrNothing(gaps),
    aheadMs: pairs.length === 0 ? undefined : pairs.reduce(
      (sum, { agent, readyMs }) => sum + covered(agent.warms, readyMs),
      0,
    ),
    sparedMs: sparedMs(run, byId),
  };
}

function sumOrNothing(values: readonly (number | undefined)[]): number | undefined {
  return values.reduce<number | undefined>(
    (sum, value) => sum === undefined || value === undefined ? undefined : sum + value,
    0,
  );
}

/** Length of what spans cover together before a time. */
function covered(spans: readonly TimeSpan[], untilMs: number): number {
  let sum = 0;
  let seenMs = 0;
  for (const { fromMs, toMs } of spans.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const endMs = Math.min(toMs, untilMs);
    sum += Math.max(0, endMs - Math.max(fromMs, seenMs));
    seenMs = Math.max(seenMs, endMs);
  }
  return sum;
}

/**
 * Who was cut off would have written as many tokens more as the server estimates, at its own pace; who reads it would
 * have been as much later as that is later than the last of the others. Nothing is known of a run that had no need of
 * its last agent.
 */
function sparedMs(run: RunView, byId: ReadonlyMap<string, AgentView>): number | undefined {
  const read = new Set(run.agents.flatMap(({ reads }) => reads));
  const last = run.agents.filter(({ id }) => !read.has(id));
  const isWhole = last.every(({ phase }) => phase === "done");
  const cut = run.agents.filter(({ phase }) => phase === "cancelled");
  if (run.state !== "done" || !isWhole || cut.length === 0) return undefined;
  const more = new Map(cut.map((agent) => [agent.id, remainingMs(run, agent)]));
  if ([...more.values()].includes(undefined)) return undefined;
  const delays = new Map<string, number>();
  const delayOf = (agent: AgentView): number => {
    const known = delays.get(agent.id);
    if (known !== undefined) return known;
    // In a circle, which no graph has, nobody is later.
    delays.set(agent.id, 0);
    const before = agent.reads.flatMap((id) => byId.get(id) ?? []).filter(({ phase }) => phase !== "failed");
    const readyMs = Math.max(0, ...before.map(({ endedMs }) => endedMs ?? 0));
    const thenMs = Math.max(
      0,
      ...before.map((one) => (one.endedMs ?? 0) + (more.get(one.id) ?? 0) + delayOf(one)),
    );
    const delay = Math.max(0, thenMs - readyMs);
    delays.set(agent.id, delay);
    return delay;
  };
  return Math.max(0, ...last.map(delayOf));
}

/** Estimate of the time that an agent had still to write; undefined where nobody's pace is known. */
function remainingMs({ agents, usage }: RunView, agent: AgentView): number | undefined {
  const tokens = usageOfAgent(usage, agent.id)?.savedTokens;
  if (tokens === 0) return 0;
  const fellows = agents.filter(({ model, phase }) => model === agent.model && phase === "done");
  const pace = msPerToken([agent]) ?? msPerToken(fellows);
  return tokens === undefined || pace === undefined ? undefined : tokens * pace;
}

/** Mean time from a token to the next one; undefined for those who have not written two. */
function msPerToken(agents: readonly AgentView[]): number | undefined {
  let ms = 0;
  let gaps = 0;
  for (const { firstTokenMs, endedMs, tokens = 0 } of agents) {
    if (firstTokenMs === undefined || endedMs === undefined || tokens < 2) continue;
    ms += endedMs - firstTokenMs;
    gaps += tokens - 1;
  }
  return gaps === 0 ? undefined : ms / gaps;
}
