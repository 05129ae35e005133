import type { AgentView } from "./run_view.ts";

/** Agents that the same agents read: what early exit looks at together. */
export interface ClusterView {
  readonly id: string;
  readonly agents: readonly AgentView[];
}

/** The agents by layers, those that read nobody first; in each layer by clusters. */
export function layersOf(agents: readonly AgentView[]): readonly (readonly ClusterView[])[] {
  const byId = new Map(agents.map((agent) => [agent.id, agent]));
  const depths = new Map<string, number>();
  const depthOf = (agent: AgentView, below: ReadonlySet<string>): number => {
    const known = depths.get(agent.id);
    if (known !== undefined) return known;
    const path = new Set([...below, agent.id]);
    const under = agent.reads.flatMap((id) => byId.get(id) ?? []).filter(({ id }) => !path.has(id));
    const depth = under.reduce((most, one) => Math.max(most, depthOf(one, path) + 1), 0);
    depths.set(agent.id, depth);
    return depth;
  };
  const layers: Map<string, AgentView[]>[] = [];
  for (const agent of agents) {
    const layer = layers[depthOf(agent, new Set())] ??= new Map<string, AgentView[]>();
    const cluster = clusterOf(agent, agents);
    layer.set(cluster, [...layer.get(cluster) ?? [], agent]);
  }
  return layers.map((layer) => [...layer].map(([id, members]) => ({ id, agents: members })));
}

/** `l1.c2` of `l1.c2.a3`; in a graph with names of its own, by who reads it. */
function clusterOf({ id }: AgentView, agents: readonly AgentView[]): string {
  const numbered = /^(l\d+\.c\d+)\.a\d+$/.exec(id)?.[1];
  if (numbered !== undefined) return numbered;
  return agents.filter(({ reads }) => reads.includes(id)).map((reader) => `${reader.id}.reads`).join(" ");
}
