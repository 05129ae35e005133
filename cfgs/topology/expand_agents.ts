import { quoteList } from "../../base/nearest.ts";
import type { ExplicitGraphConfig } from "../schema/config.ts";
import type { ConfigPath } from "../schema/config_path.ts";
import {
  type ExpandedAgent,
  type ExpandedCluster,
  type ExpandedGraph,
  fillAgent,
  makeCluster,
  MAX_AGENTS,
  type TopologyProblem,
} from "./expanded_graph.ts";

/** Writes out a graph whose agents name what they read. Adds what is wrong to `problems`. */
export function expandAgents(
  config: ExplicitGraphConfig,
  path: ConfigPath,
  problems: TopologyProblem[],
): ExpandedGraph | undefined {
  const agentsPath = [...path, "agents"];
  checkReads(config, agentsPath, problems);
  if (problems.length > 0) return undefined;
  const names = Object.keys(config.agents);
  const order = topologicalOrder(config);
  if (order.length < names.length) {
    const inCycle = names.filter((name) => !order.includes(name));
    problems.push({ path: agentsPath, message: `form a cycle through ${quoteList(inCycle)}` });
    return undefined;
  }
  const isRead = new Set(Object.values(config.agents).flatMap((agent) => agent.reads));
  const roots = names.filter((name) => !isRead.has(name));
  if (roots.length !== 1) {
    problems.push({
      path: agentsPath,
      message: `have ${roots.length} roots (agents that nobody reads): ${
        quoteList(roots)
      }; there must be one`,
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
      config: fillAgent(agent, { prompt: defaultPrompt, sampling: config.sampling }),
      reads: reads.length === 0 ? [] : [clusterId],
      onDeadline: config.on_deadline,
    });
    if (reads.length > 0) {
      clusters.push(
        makeCluster(
          { id: clusterId, path: agentPath, agents: reads, rules: { min_responses } },
          config,
          problems,
        ),
      );
    } else if (min_responses !== undefined) {
      problems.push({
        path: [...agentPath, "min_responses"],
        message: "is given but the agent reads nobody",
      });
    }
  }
  return { agents, clusters, rootId: roots[0]! };
}

/** Adds a problem for each name in `reads` that is no agent, or is there twice, and for too few or many agents. */
function checkReads(config: ExplicitGraphConfig, agentsPath: ConfigPath, problems: TopologyProblem[]): void {
  const names = Object.keys(config.agents);
  if (names.length === 0) problems.push({ path: agentsPath, message: "has no agents: give at least one" });
  if (names.length > MAX_AGENTS) {
    problems.push({
      path: agentsPath,
      message: `has ${names.length} agents, at most ${MAX_AGENTS} are allowed`,
    });
  }
  for (const [name, agent] of Object.entries(config.agents)) {
    for (const [at, read] of agent.reads.entries()) {
      const problem = (message: string) =>
        problems.push({ path: [...agentsPath, name, "reads", at], message });
      if (!Object.hasOwn(config.agents, read)) {
        problem(`names an agent "${read}" that does not exist: known are ${quoteList(names)}`);
      } else if (agent.reads.indexOf(read) !== at) problem(`names the agent "${read}" twice`);
    }
  }
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
