import type { AgentConfig, LayerConfig, LayeredGraphConfig } from "../schema/config.ts";
import type { ConfigPath } from "../schema/config_path.ts";
import {
  type ClusterRules,
  type ExpandedAgent,
  type ExpandedCluster,
  type ExpandedGraph,
  fillAgent,
  makeCluster,
  MAX_AGENTS,
  type TopologyProblem,
} from "./expanded_graph.ts";

/** A cluster of a layer before it is known who reads it. */
interface LayerCluster {
  readonly cluster: ExpandedCluster;
  readonly members: readonly Omit<ExpandedAgent, "reads">[];
}

/** Writes out a graph of layers. Adds what is wrong to `problems`. */
export function expandLayers(
  config: LayeredGraphConfig,
  path: ConfigPath,
  problems: TopologyProblem[],
): ExpandedGraph | undefined {
  const total = config.layers.reduce((sum, layer) => sum + countAgents(layer), 0);
  if (total > MAX_AGENTS) {
    problems.push({
      path: [...path, "layers"],
      message: `has ${total} agents, at most ${MAX_AGENTS} are allowed`,
    });
    return undefined;
  }
  const layers = config.layers.map((_, index) => expandLayer(index, { config, path }, problems));
  const agents: ExpandedAgent[] = [];
  const clusters: ExpandedCluster[] = [];
  let joined: ExpandedCluster | undefined;
  let before: readonly LayerCluster[] = [];
  for (const [index, layer] of layers.entries()) {
    const members = layer.flatMap((cluster) => cluster.members);
    const readings = index === 0
      ? members.map(() => [])
      : assign(before.map((cluster) => cluster.cluster.id), members.length);
    if (readings === undefined) {
      problems.push({
        path: [...path, "layers", index],
        message: `has ${members.length} agents but layer ${index} has ${before.length} clusters: ` +
          `one number must be a multiple of the other, so that every agent reads as many clusters`,
      });
      return undefined;
    }
    for (const [at, member] of members.entries()) agents.push({ ...member, reads: readings[at] ?? [] });
    // Nobody reads the last layer: its only agent is the root, and its answer is the run's.
    if (index < layers.length - 1) clusters.push(...layer.map((cluster) => cluster.cluster));
    else if (config.compat === "moa-vllm" && members.length > 1) {
      const written = { path: [...path, "layers", index], agents: members.map(({ id }) => id), rules: {} };
      joined = makeCluster({ id: `l${index + 1}.joined`, ...written }, config, problems);
      clusters.push(joined);
    } else if (members.length !== 1) {
      problems.push({
        path: [...path, "layers", index],
        message: `is the last layer and has ${members.length} agents: it must have exactly one, the root`,
      });
    }
    before = layer;
  }
  const root = agents.at(-1);
  return root === undefined ? undefined : { agents, clusters, rootId: root.id, joined };
}

function countAgents(layer: LayerConfig): number {
  return typeof layer.clusters === "number"
    ? layer.clusters * (layer.agents?.length ?? 0)
    : layer.clusters.reduce((sum, cluster) => sum + cluster.agents.length, 0);
}

function expandLayer(
  index: number,
  graph: { readonly config: LayeredGraphConfig; readonly path: ConfigPath },
  problems: TopologyProblem[],
): LayerCluster[] {
  const { config } = graph;
  const layer = config.layers[index]!;
  const path = [...graph.path, "layers", index];
  const defaultPrompt = index === 0
    ? "propose"
    : index === config.layers.length - 1
    ? "synthesize"
    : "aggregate";
  let written: { path: ConfigPath; config: ClusterRules & { agents: readonly AgentConfig[] } }[];
  if (typeof layer.clusters === "number") {
    const agents = layer.agents;
    if (agents === undefined) {
      problems.push({ path, message: "has no agents: give `agents`, or a list of `clusters` with agents" });
      return [];
    }
    written = Array.from({ length: layer.clusters }, () => ({ path, config: { agents } }));
  } else {
    if (layer.agents !== undefined) {
      problems.push({
        path: [...path, "agents"],
        message: "is given although each of `clusters` has its own agents: remove one of the two",
      });
    }
    written = layer.clusters.map((cluster, at) => ({ path: [...path, "clusters", at], config: cluster }));
  }
  return written.map((cluster, at) => {
    const id = `l${index + 1}.c${at + 1}`;
    const own = cluster.config;
    const rules: ClusterRules = {
      min_responses: own.min_responses ?? layer.min_responses,
      deadline_ms: own.deadline_ms ?? layer.deadline_ms,
      on_deadline: own.on_deadline ?? layer.on_deadline,
      early_exit: own.early_exit ?? layer.early_exit,
    };
    const inherited = {
      prompt: layer.prompt ?? defaultPrompt,
      sampling: { ...config.sampling, ...layer.sampling },
      deadline_ms: rules.deadline_ms,
    };
    const members = own.agents.map((agent, n) => ({
      id: `${id}.a${n + 1}`,
      path: [...cluster.path, "agents", n],
      config: fillAgent(agent, inherited),
      onDeadline: rules.on_deadline ?? config.on_deadline,
    }));
    return {
      members,
      cluster: makeCluster(
        { id, path: cluster.path, agents: members.map((member) => member.id), rules },
        config,
        problems,
      ),
    };
  });
}

/** The i-th of `count` agents reads the i-th list of clusters; undefined when they cannot be shared out evenly. */
function assign(clusters: readonly string[], count: number): string[][] | undefined {
  if (clusters.length === 0 || count === 0) return undefined;
  if (count % clusters.length === 0) {
    const share = count / clusters.length;
    return Array.from({ length: count }, (_, at) => [clusters[Math.floor(at / share)]!]);
  }
  if (clusters.length % count === 0) {
    const share = clusters.length / count;
    return Array.from({ length: count }, (_, at) => clusters.slice(at * share, (at + 1) * share));
  }
  return undefined;
}
