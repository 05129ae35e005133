import type { AgentView, RunView, TimeSpan } from "./run_view.ts";

/** A part of an agent's time. */
export interface GanttSegment extends TimeSpan {
  readonly kind: "queue" | "warm" | "prefill" | "decode" | "second";
}

/** An agent's row in the chart. */
export interface GanttRow {
  readonly agent: AgentView;
  /** True for the agents that the run has waited for one after the other. */
  readonly critical: boolean;
  readonly segments: readonly GanttSegment[];
}

/** The rows of a run, in the order of its agents. */
export function ganttRows(run: RunView): readonly GanttRow[] {
  const critical = new Set(criticalAgents(run));
  return run.agents.map((agent) => ({
    agent,
    critical: critical.has(agent.id),
    segments: segmentsOf(agent, run.lastMs),
  }));
}

/** The length of the chart, in ms. */
export function chartEndMs(run: RunView): number {
  return Math.max(run.durationMs ?? 0, run.lastMs, 1);
}

/**
 * Queue, prefill and decode follow each other without gaps; what was prefilled ahead, and a second attempt, lie before
 * and beside them.
 */
function segmentsOf(agent: AgentView, nowMs: number): readonly GanttSegment[] {
  const segments: GanttSegment[] = agent.warms.map((span) => ({ kind: "warm", ...span }));
  const { queuedMs, placedMs, firstTokenMs, endedMs = nowMs } = agent;
  const { startedMs, endedMs: secondEndMs = endedMs } = agent.hedge ?? {};
  if (startedMs !== undefined) segments.push({ kind: "second", fromMs: startedMs, toMs: secondEndMs });
  if (queuedMs === undefined) return segments;
  const prefillMs = placedMs ?? (firstTokenMs === undefined ? endedMs : queuedMs);
  const decodeMs = firstTokenMs ?? endedMs;
  const parts = [["queue", queuedMs, prefillMs], ["prefill", prefillMs, decodeMs], [
    "decode",
    decodeMs,
    endedMs,
  ]] as const;
  for (const [kind, fromMs, toMs] of parts) if (toMs > fromMs) segments.push({ kind, fromMs, toMs });
  return segments;
}

/** Ids of the agents that the run has waited for: the last one, the last to end that it read, and so on to a leaf. */
export function criticalAgents({ agents }: RunView): readonly string[] {
  const byId = new Map(agents.map((agent) => [agent.id, agent]));
  const read = new Set(agents.flatMap(({ reads }) => reads));
  const path: string[] = [];
  let at = lastToEnd(agents.filter(({ id }) => !read.has(id)));
  while (at !== undefined && !path.includes(at.id)) {
    path.unshift(at.id);
    at = lastToEnd(at.reads.flatMap((id) => byId.get(id) ?? []));
  }
  return path;
}

function lastToEnd(agents: readonly AgentView[]): AgentView | undefined {
  const done = agents.filter(({ phase, endedMs }) => phase === "done" && endedMs !== undefined);
  return done.reduce<AgentView | undefined>(
    (last, agent) => last === undefined || (agent.endedMs ?? 0) > (last.endedMs ?? 0) ? agent : last,
    undefined,
  );
}
