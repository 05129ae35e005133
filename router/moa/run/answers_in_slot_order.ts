import type { Cluster } from "../exit/cluster.ts";
import type { Graph } from "../graph/graph_types.ts";
import type { AgentAnswer } from "../prompt/answer.ts";

/** The answers of closed clusters in slot order: as the graph declares them, or as they came. */

export function answersInSlotOrder(clusters: readonly Cluster[], slots: Graph["slots"]): AgentAnswer[] {
  if (slots === "completion") {
    return clusters.flatMap((cluster) => cluster.completions).sort((a, b) => a.sequence - b.sequence);
  }
  return clusters.flatMap(({ node, completions }) => {
    const place = new Map(node.agents.map((agent, index) => [agent.id, index]));
    return [...completions].sort((a, b) => (place.get(a.agent) ?? 0) - (place.get(b.agent) ?? 0));
  });
}
