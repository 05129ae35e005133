import { isDeepStrictEqual } from "node:util";
import type { Config, GraphConfig } from "../schema/config.ts";
import { type EarlyExitConfig, EFFORTS } from "../schema/early_exit.ts";
import { type ConfigFinding, findingAt } from "../schema/explain.ts";
import { staircaseSchema } from "../schema/staircase.ts";
import { expandGraph } from "../topology/expand_graph.ts";
import { whyNotResumed } from "./prefill.ts";

/** The reason why a graph's root cannot start as a staircase, as the end of a sentence; undefined where it may. */
export function whyNoStaircase(graph: GraphConfig): string | undefined {
  if (graph.compat !== undefined) return `compat "${graph.compat}" fills prompts as a whole`;
  if (graph.early_exit.scope === "run") {
    return 'early_exit of scope "run" may answer with another agent\'s text when the root has begun already';
  }
  return exitsOf(graph).some(({ metric, skip_root }) => metric !== "none" || skip_root !== undefined)
    ? "an early_exit may drop agents whose words the root has begun on"
    : undefined;
}

/** Models of a graph's agents that would start before their precursors are done, each with why it cannot. */
export function waitingModels(config: Config, name: string): { model: string; why: string }[] {
  const graph = config.graphs[name];
  if (graph?.root !== "staircase") return [];
  const { graph: expanded } = expandGraph(graph, ["graphs", name]);
  const climbing = (expanded?.agents ?? []).filter(({ id, reads }) =>
    id === expanded?.rootId || (graph.staircase.climbs === "all" && reads.length > 0)
  );
  return [...new Set(climbing.map(({ config: { model } }) => model))].flatMap((model) => {
    const why = whyNotResumed(config, model);
    return why === undefined ? [] : [{ model, why }];
  });
}

/** Says where a staircase is asked for and cannot be had, or is set up and not asked for. */
export function checkStaircase(config: Config, name: string): ConfigFinding[] {
  const graph = config.graphs[name];
  if (graph === undefined) return [];
  const path = ["graphs", name, "root"];
  if (graph.root === "wait") {
    if (isDeepStrictEqual(graph.staircase, staircaseSchema.parse({}))) return [];
    const message = 'has no effect unless root is "staircase", here or in a request\'s canopy.root';
    return [findingAt(["graphs", name, "staircase"], message, { severity: "warning" })];
  }
  const refusal = whyNoStaircase(graph);
  if (refusal !== undefined) {
    const message = `is "staircase", but ${refusal}: take one of the two out, or make it a graph of its own`;
    return [findingAt(path, message, { value: "staircase" })];
  }
  const { write_tokens, ahead_tokens } = graph.staircase;
  const findings = waitingModels(config, name).map(({ model, why }) =>
    findingAt(
      path,
      `is "staircase", but not in effect for agents of "${model}", which wait for their precursors: ${why}`,
      { value: "staircase", severity: "warning" },
    )
  );
  for (const level of graph.effort === "root" ? [] : EFFORTS) {
    const early_exit = graph.effort === "root" ? undefined : graph.effort[level]?.early_exit;
    const why = early_exit && whyNoStaircase({ ...graph, early_exit });
    if (why === undefined) continue;
    findings.push(
      findingAt(
        ["graphs", name, "effort", level, "early_exit"],
        `makes the root wait at this level, though root is "staircase": ${why}`,
        { severity: "warning" },
      ),
    );
  }
  if (write_tokens > ahead_tokens) {
    const message = `is more than ahead_tokens (${ahead_tokens}): no step writes so many`;
    findings.push(
      findingAt(["graphs", name, "staircase", "write_tokens"], message, {
        value: write_tokens,
        severity: "warning",
      }),
    );
  }
  return findings;
}

/** All settings of early exit in a graph. */
function exitsOf(graph: GraphConfig): EarlyExitConfig[] {
  const layers = "layers" in graph ? graph.layers : [];
  const own = layers.flatMap(({ early_exit, clusters }) => [
    early_exit,
    ...(typeof clusters === "number" ? [] : clusters.map((cluster) => cluster.early_exit)),
  ]);
  return [graph.early_exit, ...own.filter((settings) => settings !== undefined)];
}
