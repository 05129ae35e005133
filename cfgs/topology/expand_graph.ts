import type { GraphConfig } from "../schema/config.ts";
import type { ConfigPath } from "../schema/config_path.ts";
import { expandAgents } from "./expand_agents.ts";
import { expandLayers } from "./expand_layers.ts";
import type { ExpandedGraph, TopologyProblem } from "./expanded_graph.ts";

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

/** Each problem once: the clusters of a layer share the config that is at fault. */
function unique(problems: readonly TopologyProblem[]): TopologyProblem[] {
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}
