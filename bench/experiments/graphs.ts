import { SIZES } from "./world.ts";
import type { Sampling } from "../../router/engines/engine.ts";
import type { AgentGraph, AgentNode, ClusterNode, Graph } from "../../router/moa/graph/graph_types.ts";

/** A graph as the configuration has it. */
export type GraphSettings = Readonly<Record<string, unknown>>;

/** `incremental_prefill` of a graph. */
export interface IncrementalPrefill {
  readonly mode: "off" | "auto" | "on";
  readonly chunk_tokens?: number;
}

/** The order of the answers in a prompt. */
export type Slots = "declared" | "completion";

/** Agents of the three sizes in turn, each with a seed of its own: equal places in two graphs say the same. */
function agents(layer: number, first: number, count: number): GraphSettings[] {
  return Array.from({ length: count }, (_, index) => ({
    model: SIZES[(first + index) % SIZES.length],
    sampling: { seed: placeSeed({ layer: layer - 1, index: first + index }) },
  }));
}

/** Seed of the agent at a place, which scripted answers tell agents apart by. */
export function placeSeed({ layer, index }: Pick<AgentPlace, "layer" | "index">): number {
  return 100 * (layer + 1) + index;
}

/** The root alone: the largest model. */
export const ROOT_LAYER: GraphSettings = { agents: [{ model: "32b", sampling: { seed: 300 } }] };

/** The paper's baseline: nine proposers, nine aggregators that read them all, one root. */
export function dense991(): GraphSettings {
  return {
    layers: [{ agents: agents(1, 0, 9) }, { agents: agents(2, 0, 9) }, ROOT_LAYER],
    incremental_prefill: { mode: "off" },
  };
}

/** The paper's tree: three clusters of three proposers, one aggregator for each, one root. */
export function tree931(
  incrementalPrefill: IncrementalPrefill = { mode: "off" },
  slots: Slots = "declared",
): GraphSettings {
  return {
    layers: [
      { clusters: [0, 3, 6].map((first) => ({ agents: agents(1, first, 3) })) },
      { agents: agents(2, 0, 3) },
      ROOT_LAYER,
    ],
    incremental_prefill: incrementalPrefill,
    slots,
  };
}

/** The place of an agent in a layered graph, from 0. */
export interface AgentPlace {
  readonly layer: number;
  /** Among the agents of its layer, across clusters. */
  readonly index: number;
  /** Key of its model. */
  readonly model?: string | undefined;
}

/** Places of the agents, by id. */
export function placesOf(graph: AgentGraph): ReadonlyMap<string, AgentPlace> {
  const layers = new Map<AgentNode, number>();
  const counts: number[] = [];
  const places = new Map<string, AgentPlace>();
  for (const node of graph.agents) {
    const below = node.reads.flatMap((cluster) => cluster.agents).map((agent) => layers.get(agent) ?? 0);
    const layer = below.length === 0 ? 0 : 1 + Math.max(...below);
    const index = counts[layer] ?? 0;
    counts[layer] = index + 1;
    layers.set(node, layer);
    places.set(node.id, { layer, index, model: node.model });
  }
  return places;
}

/** The same graph, in which each agent writes exactly so many tokens, whatever it reads. */
export function withAnswerLengths(graph: Graph, lengthOf: (place: AgentPlace) => number): Graph {
  return withSampling(graph, (place, own) => ({
    ...own,
    max_tokens: lengthOf(place),
    extra: { ...own.extra, ignore_eos: true },
  }));
}

/** The same graph, its agents with other parameters. */
export function withSampling(
  graph: Graph,
  samplingOf: (place: AgentPlace, own: Sampling) => Sampling,
): Graph {
  const places = placesOf(graph);
  return withAgents(graph, ({ id, sampling }) => ({
    sampling: samplingOf(places.get(id) ?? { layer: 0, index: 0 }, sampling),
  }));
}

/** The same graph, its agents with other parameters or prompts; who reads whom stays. */
export function withAgents(
  graph: Graph,
  changeOf: (own: AgentNode) => Partial<Pick<AgentNode, "sampling" | "template">>,
): Graph {
  const agents = new Map<AgentNode, AgentNode>();
  const clusters = new Map<ClusterNode, ClusterNode>();
  const clusterOf = (old: ClusterNode): ClusterNode => {
    let cluster = clusters.get(old);
    if (cluster === undefined) {
      cluster = { ...old, agents: old.agents.map((agent) => agents.get(agent) ?? agent) };
      clusters.set(old, cluster);
    }
    return cluster;
  };
  for (const old of graph.agents) {
    agents.set(old, { ...old, ...changeOf(old), reads: old.reads.map(clusterOf) });
  }
  return {
    ...graph,
    agents: [...agents.values()],
    clusters: graph.clusters.map(clusterOf),
    root: agents.get(graph.root) ?? graph.root,
  };
}
