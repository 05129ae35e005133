import type { Config } from "../schema/config.ts";
import { type ConfigFinding, findingAt, notOneOf } from "../schema/explain.ts";
import { expandGraph } from "../topology/expand_graph.ts";

/** Says which models cannot answer in another one's place, and where nobody does although it is set up. */
export function checkFallbacks(config: Config): ConfigFinding[] {
  const { models } = config;
  const findings = Object.entries(models).flatMap(([name, { fallback = [] }]) =>
    fallback.flatMap((other, index) => {
      const message = whyNot(config, name, other);
      return message === undefined
        ? []
        : [findingAt(["models", name, "fallback", index], message, { value: other })];
    })
  );
  return [...findings, ...checkSteps(config)];
}

function whyNot({ models, graphs }: Config, name: string, other: string): string | undefined {
  if (other === name) return `is "${name}", the model itself: name other models`;
  if (!Object.hasOwn(models, other)) {
    if (Object.hasOwn(graphs, other)) {
      return `is "${other}", a graph: only a model can answer in a model's place`;
    }
    return notOneOf(other, Object.keys(models).filter((one) => one !== name));
  }
  if (!reaches(models, other, name)) return undefined;
  return `is "${other}", which itself falls back on "${name}": leave one of the two out, so that it ends somewhere`;
}

function reaches(models: Config["models"], from: string, to: string, seen = new Set<string>()): boolean {
  if (seen.has(from)) return false;
  seen.add(from);
  return models[from]?.fallback?.some((next) => next === to || reaches(models, next, to, seen)) === true;
}

/** Answers in steps are begun before there is a whole prompt that another model could be asked with. */
function checkSteps({ models, graphs }: Config): ConfigFinding[] {
  return Object.entries(graphs).flatMap(([name, graph]) => {
    if (graph.root !== "staircase") return [];
    const { graph: expanded } = expandGraph(graph, ["graphs", name]);
    const root = expanded?.agents.find(({ id }) => id === expanded.rootId)?.config.model;
    if (root === undefined || (models[root]?.fallback ?? []).length === 0) return [];
    const message = `is not in effect for the root of ${name}, which answers in steps (root "staircase")`;
    return [findingAt(["models", root, "fallback"], message, { severity: "warning" })];
  });
}
