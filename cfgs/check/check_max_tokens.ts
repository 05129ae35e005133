import type { Config } from "../schema/config.ts";
import { type ConfigFinding, findingAt } from "../schema/explain.ts";
import { expandGraph } from "../topology/expand_graph.ts";

/**
 * One warning about a graph in which `max_tokens` are so large that the longest answers would not fit the context of
 * the agents that read them. `contextOf`: the context of a model in tokens, undefined where it is not known.
 */
export function checkMaxTokens(
  config: Config,
  name: string,
  contextOf: (model: string) => number | undefined,
): ConfigFinding[] {
  const graphConfig = config.graphs[name];
  const { graph } = graphConfig === undefined ? {} : expandGraph(graphConfig, ["graphs", name]);
  if (graph === undefined || graphConfig === undefined) return [];
  const longest = new Map<string, number>();
  for (const { id, config: agent } of graph.agents) {
    const model = Object.hasOwn(config.models, agent.model) ? config.models[agent.model] : undefined;
    longest.set(id, agent.sampling?.max_tokens ?? model?.sampling?.max_tokens ?? 0);
  }
  const members = new Map(graph.clusters.map((cluster) => [cluster.id, cluster.agents]));
  let least = Infinity;
  const tight = graph.agents.flatMap(({ id, config: { model }, reads }) => {
    const context = contextOf(model);
    if (context === undefined) return [];
    const precursors = reads.flatMap((read) => members.get(read) ?? []);
    const read = precursors.reduce((sum, precursor) => sum + (longest.get(precursor) ?? 0), 0);
    const own = longest.get(id) ?? 0;
    if (read + own <= context) return [];
    least = Math.min(least, Math.floor(context / (1 + precursors.length)));
    return [{ id, model, context, read, own }];
  });
  const [first, ...others] = tight;
  if (first === undefined) return [];
  const more = others.length === 0
    ? ""
    : ` (and ${others.length} other ${others.length === 1 ? "agent" : "agents"})`;
  const fate = graphConfig.on_overflow === "refuse"
    ? "an agent whose precursors write too much fails"
    : "answers that are too long for their reader are cut from their middle";
  const what =
    `has max_tokens that do not fit together: agent ${first.id} may read ${first.read} tokens and write ` +
    `${first.own} in the ${first.context} of "${first.model}"${more}; its max_tokens are lowered to what is left, and ` +
    `${fate} (on_overflow); with max_tokens below ${least} that cannot happen`;
  return [findingAt(["graphs", name], what, { severity: "warning" })];
}
