import type {
  AgentConfig,
  ExplicitGraphConfig,
  GraphConfig,
  LayerConfig,
  LayeredGraphConfig,
} from "./schema.ts";

/** Where something stands in a config file: object keys and list indices from the top. */
export type ConfigPath = readonly (string | number)[];

/** One agent of an expanded graph. */
export interface ExpandedAgent {
  /** `l<layer>.c<cluster>.a<n>`, from 1; in an explicit DAG the name from the config. */
  readonly id: string;
  readonly path: ConfigPath;
  /** Prompt name, sampling and deadline are filled from cluster, layer and graph, the nearest one winning. */
  readonly config: AgentConfig & { readonly prompt: string };
  /** Ids of the clusters whose answers it reads, in prompt order; empty for a leaf. */
  readonly reads: readonly string[];
  /** What becomes of the text that it has written when its deadline passes. */
  readonly onDeadline: "drop" | "use_partial";
}

/** The agents that one successor reads together. */
export interface ExpandedCluster {
  /** `l<layer>.c<cluster>`; in an explicit DAG `<successor>.reads`. */
  readonly id: string;
  readonly path: ConfigPath;
  /** Ids of its members, in prompt order. */
  readonly agents: readonly string[];
  readonly minResponses: number;
  readonly onDeadline: "drop" | "use_partial";
  readonly earlyExit: Readonly<Record<string, unknown>> & { readonly metric: string };
}

/** A graph with every agent and cluster written out: a DAG with one root. */
export interface ExpandedGraph {
  /** In topological order: every agent after all that it reads; the root is last. */
  readonly agents: readonly ExpandedAgent[];
  /** Every cluster has at least one reader. */
  readonly clusters: readonly ExpandedCluster[];
  readonly rootId: string;
}

/** What is wrong with a graph, and where. */
export interface TopologyProblem {
  readonly path: ConfigPath;
  readonly message: string;
}

/** Most agents of one graph: a typing error such as `"clusters": 90000` must not fill the memory. */
export const maxAgents = 1024;

/**
 * Writes out the agents and clusters of a graph and checks its shape; `path` is where the graph stands in the
 * config. `graph` is undefined when there are problems. Names of models and prompts are not looked up here.
 */
export function expandGraph(
  config: GraphConfig,
  path: ConfigPath,
): { readonly graph: ExpandedGraph | undefined; readonly problems: readonly TopologyProblem[] } {
  const problems: TopologyProblem[] = [];
  const graph = "layers" in config
    ? expandLayers(config, path, problems)
    : expandAgents(config, path, problems);
  return { graph: problems.length === 0 ? graph : undefined, problems: unique(problems) };
}

/** A cluster of a layer before it is known who reads it. */
interface LayerCluster {
  readonly cluster: ExpandedCluster;
  readonly members: readonly Omit<ExpandedAgent, "reads">[];
}

function expandLayers(
  config: LayeredGraphConfig,
  path: ConfigPath,
  problems: TopologyProblem[],
): ExpandedGraph | undefined {
  const total = config.layers.reduce((sum, layer) => sum + countAgents(layer), 0);
  if (total > maxAgents) {
    problems.push({
      path: [...path, "layers"],
      message: `has ${total} agents, at most ${maxAgents} are allowed`,
    });
    return undefined;
  }
  const layers = config.layers.map((_, index) => expandLayer(config, index, path, problems));
  const agents: ExpandedAgent[] = [];
  const clusters: ExpandedCluster[] = [];
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
    else if (members.length !== 1) {
      problems.push({
        path: [...path, "layers", index],
        message: `is the last layer and has ${members.length} agents: it must have exactly one, the root`,
      });
    }
    before = layer;
  }
  const root = agents.at(-1);
  return root === undefined ? undefined : { agents, clusters, rootId: root.id };
}

function countAgents(layer: LayerConfig): number {
  return typeof layer.clusters === "number"
    ? layer.clusters * (layer.agents?.length ?? 0)
    : layer.clusters.reduce((sum, cluster) => sum + cluster.agents.length, 0);
}

function expandLayer(
  config: LayeredGraphConfig,
  index: number,
  graphPath: ConfigPath,
  problems: TopologyProblem[],
): LayerCluster[] {
  const layer = config.layers[index]!;
  const path = [...graphPath, "layers", index];
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
    const rules = { ...clusterRules(layer), ...clusterRules(cluster.config) };
    const members = cluster.config.agents.map((agent, n) => ({
      id: `${id}.a${n + 1}`,
      path: [...cluster.path, "agents", n],
      config: fillAgent(agent, layer, rules.deadline_ms, config.sampling, defaultPrompt),
      onDeadline: rules.on_deadline ?? config.on_deadline,
    }));
    return {
      members,
      cluster: makeCluster(id, cluster.path, members.map((member) => member.id), rules, config, problems),
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

function expandAgents(
  config: ExplicitGraphConfig,
  path: ConfigPath,
  problems: TopologyProblem[],
): ExpandedGraph | undefined {
  const names = Object.keys(config.agents);
  const agentsPath = [...path, "agents"];
  if (names.length === 0) problems.push({ path: agentsPath, message: "has no agents: give at least one" });
  if (names.length > maxAgents) {
    problems.push({
      path: agentsPath,
      message: `has ${names.length} agents, at most ${maxAgents} are allowed`,
    });
  }
  const isRead = new Set<string>();
  for (const [name, agent] of Object.entries(config.agents)) {
    for (const [at, read] of agent.reads.entries()) {
      const problem = (message: string) =>
        problems.push({ path: [...agentsPath, name, "reads", at], message });
      if (!Object.hasOwn(config.agents, read)) {
        problem(`names an agent "${read}" that does not exist: known are ${quoteAll(names)}`);
      } else if (agent.reads.indexOf(read) !== at) problem(`names the agent "${read}" twice`);
      isRead.add(read);
    }
  }
  if (problems.length > 0) return undefined;

  const order = topologicalOrder(config);
  if (order.length < names.length) {
    const inCycle = names.filter((name) => !order.includes(name));
    problems.push({ path: agentsPath, message: `form a cycle through ${quoteAll(inCycle)}` });
    return undefined;
  }
  const roots = names.filter((name) => !isRead.has(name));
  if (roots.length !== 1) {
    problems.push({
      path: agentsPath,
      message: `have ${roots.length} roots (agents that nobody reads): ${quoteAll(roots)}; there must be one`,
    });
    return undefined;
  }

  const agents: ExpandedAgent[] = [];
  const clusters: ExpandedCluster[] = [];
  for (const name of order) {
    const { reads, min_responses, ...agent } = config.agents[name]!;
    const clusterId = `${name}.reads`;
    const agentPath = [...agentsPath, name];
    const defaultPrompt = reads.length === 0 ? "propose" : name === roots[0] ? "synthesize" : "aggregate";
    agents.push({
      id: name,
      path: agentPath,
      config: fillAgent(agent, {}, undefined, config.sampling, defaultPrompt),
      reads: reads.length === 0 ? [] : [clusterId],
      onDeadline: config.on_deadline,
    });
    if (reads.length > 0) {
      clusters.push(makeCluster(clusterId, agentPath, reads, { min_responses }, config, problems));
    } else if (min_responses !== undefined) {
      problems.push({
        path: [...agentPath, "min_responses"],
        message: "is given but the agent reads nobody",
      });
    }
  }
  return { agents, clusters, rootId: roots[0]! };
}

/** Agents after all that they read, otherwise in the file's order; agents of a cycle are left out. */
function topologicalOrder(config: ExplicitGraphConfig): string[] {
  const missing = new Map(Object.entries(config.agents).map(([name, agent]) => [name, agent.reads.length]));
  const readers = new Map<string, string[]>();
  for (const [name, agent] of Object.entries(config.agents)) {
    for (const read of agent.reads) readers.set(read, [...readers.get(read) ?? [], name]);
  }
  const order = [...missing.keys()].filter((name) => missing.get(name) === 0);
  for (const name of order) {
    for (const reader of readers.get(name) ?? []) {
      const left = missing.get(reader)! - 1;
      missing.set(reader, left);
      if (left === 0) order.push(reader);
    }
  }
  return order;
}

type ClusterRules = Pick<LayerConfig, "min_responses" | "deadline_ms" | "on_deadline" | "early_exit">;

/** The rules that are set. */
function clusterRules(rules: ClusterRules): ClusterRules {
  const { min_responses, deadline_ms, on_deadline, early_exit } = rules;
  return {
    ...(min_responses === undefined ? {} : { min_responses }),
    ...(deadline_ms === undefined ? {} : { deadline_ms }),
    ...(on_deadline === undefined ? {} : { on_deadline }),
    ...(early_exit === undefined ? {} : { early_exit }),
  };
}

function fillAgent(
  agent: AgentConfig,
  layer: Pick<LayerConfig, "prompt" | "sampling">,
  deadlineMs: number | undefined,
  graphSampling: AgentConfig["sampling"],
  defaultPrompt: string,
): ExpandedAgent["config"] {
  return {
    model: agent.model,
    prompt: agent.prompt ?? layer.prompt ?? defaultPrompt,
    sampling: { ...graphSampling, ...layer.sampling, ...agent.sampling },
    deadline_ms: agent.deadline_ms ?? deadlineMs,
  };
}

function makeCluster(
  id: string,
  path: ConfigPath,
  agents: readonly string[],
  rules: ClusterRules,
  graph: GraphConfig,
  problems: TopologyProblem[],
): ExpandedCluster {
  if (rules.min_responses !== undefined && rules.min_responses > agents.length) {
    problems.push({
      path: [...path, "min_responses"],
      message: `is ${rules.min_responses} but the cluster has only ${agents.length} agents`,
    });
  }
  return {
    id,
    path,
    agents,
    // A graph-wide minimum is meant for all clusters, so a small one needs no more than all its members.
    minResponses: rules.min_responses ?? Math.min(graph.min_responses ?? 1, agents.length),
    onDeadline: rules.on_deadline ?? graph.on_deadline,
    earlyExit: rules.early_exit ?? graph.early_exit,
  };
}

function quoteAll(names: readonly string[]): string {
  const shown = names.slice(0, 8).map((name) => `"${name}"`).join(", ");
  return names.length > 8 ? `${shown} and ${names.length - 8} more` : shown || "none";
}

/** Each problem once: the clusters of a layer share the config that is at fault. */
function unique(problems: readonly TopologyProblem[]): TopologyProblem[] {
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}
