import type { Config } from "../schema/config.ts";
import { type ConfigFinding, findingAt } from "../schema/explain.ts";
import { expandGraph } from "../topology/expand_graph.ts";

/** Models of a graph whose agents read others, so that their prompts could be prefilled ahead; none where that is off. */
export function prefilledModels(config: Config, graphName: string): string[] {
  const graph = config.graphs[graphName];
  if (graph === undefined || graph.incremental_prefill.mode === "off" || graph.compat !== undefined) {
    return [];
  }
  const { graph: expanded } = expandGraph(graph, ["graphs", graphName]);
  const readers = (expanded?.agents ?? []).filter(({ reads }) => reads.length > 0);
  return [...new Set(readers.map(({ config }) => config.model))].filter((model) =>
    Object.hasOwn(config.models, model)
  );
}

/** The reason why a configuration keeps a model's prompts from being prefilled ahead; undefined where it does not. */
export function whyNotPrefilled({ models }: Config, model: string): string | undefined {
  const { engine, tokenizer } = models[model] ?? {};
  if (engine === "openai") return `the engine "openai" cannot prefill a prefix`;
  return tokenizer === false ? `models.${model}.tokenizer is false` : undefined;
}

/** The reason why answers of a model that break off begin anew and do not go on elsewhere; undefined where they may. */
export function whyNotResumed({ models }: Config, model: string): string | undefined {
  const { engine, tokenizer } = models[model] ?? {};
  if (engine === "openai") return `the engine "openai" takes no token ids`;
  return tokenizer === false ? `models.${model}.tokenizer is false` : undefined;
}

/** Warnings about graphs that ask for incremental prefill by name and cannot have it. */
export function checkPrefill(config: Config, name: string): ConfigFinding[] {
  const graph = config.graphs[name];
  if (graph?.incremental_prefill.mode !== "on") return [];
  const path = ["graphs", name, "incremental_prefill"];
  const warn = (what: string) =>
    findingAt(path, `is "on", but ${what}`, { value: "on", severity: "warning" });
  if (graph.compat !== undefined) {
    return [warn(`compat "${graph.compat}" fills its prompts as a whole: it is off`)];
  }
  return prefilledModels(config, name).flatMap((model) => {
    const why = whyNotPrefilled(config, model);
    return why === undefined ? [] : [warn(`not in effect for agents of "${model}": ${why}`)];
  });
}
