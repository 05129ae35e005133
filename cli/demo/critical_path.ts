import type { AgentNode, Graph } from "../../router/moa/graph/graph_types.ts";
import type { AgentRecord, RunRecord } from "../../router/moa/record/run_record.ts";

/** One agent on the critical path of a run. */
export interface CriticalStep {
  readonly agent: string;
  readonly model: string;
  /** From the end of the step before (or the run's start) to this agent's end, in ms: the steps add up to the run. */
  readonly durationMs: number;
  /** Of it, the part after its first token. */
  readonly decodeMs: number;
  readonly completionTokens: number;
}

/**
 * The chain of agents that a run had to wait for, first one first: the root, the precursor that ended last before
 * it could start, and so on down to a leaf. Empty when the root has not ended.
 */
export function criticalPath(graph: Graph, record: RunRecord): CriticalStep[] {
  const records = new Map(record.agents.map((agent) => [agent.id, agent]));
  const chain: AgentRecord[] = [];
  let node: AgentNode | undefined = graph.root;
  while (node !== undefined) {
    const own = records.get(node.id);
    if (own?.endedAtMs === undefined) break;
    chain.unshift(own);
    node = lastToEnd(node, records);
  }
  let beforeMs = 0;
  return chain.map((agent) => {
    const endedAtMs = agent.endedAtMs ?? beforeMs;
    const step = {
      agent: agent.id,
      model: agent.model,
      durationMs: endedAtMs - beforeMs,
      decodeMs: endedAtMs - (agent.firstTokenAtMs ?? endedAtMs),
      completionTokens: agent.usage?.completionTokens ?? 0,
    };
    beforeMs = endedAtMs;
    return step;
  });
}

/** The precursor that an agent waited for the longest. */
function lastToEnd(node: AgentNode, records: ReadonlyMap<string, AgentRecord>): AgentNode | undefined {
  let last: AgentNode | undefined;
  let lastMs = -Infinity;
  for (const precursor of node.reads.flatMap((cluster) => cluster.agents)) {
    const endedAtMs = records.get(precursor.id)?.endedAtMs ?? -Infinity;
    if (endedAtMs > lastMs) {
      last = precursor;
      lastMs = endedAtMs;
    }
  }
  return last;
}
