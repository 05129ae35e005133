import type { DrawnRun } from "../kit/run_view/tree_view.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";

/** A run in this process as a terminal shows it: its record, with what the graph knows of who reads whom. */
export function drawnRun(graph: Graph, record: RunRecord): DrawnRun {
  const records = new Map(record.agents.map((agent) => [agent.id, agent]));
  return {
    graph: graph.name,
    durationMs: record.durationMs,
    tokens: record.usage.completionTokens,
    agents: graph.agents.flatMap(({ id, reads }) => {
      const agent = records.get(id);
      if (agent === undefined) return [];
      const { model, state, text, error, startedAtMs, firstTokenAtMs, endedAtMs } = agent;
      return [{
        id,
        model,
        reads: reads.flatMap((cluster) => cluster.agents.map((read) => read.id)),
        state,
        text,
        error,
        tokens: agent.usage?.completionTokens ?? 0,
        startedAtMs,
        firstTokenAtMs,
        endedAtMs,
      }];
    }),
  };
}
