import { didYouMean, quoteList } from "../../base/nearest.ts";
import type { Config, GraphConfig } from "../schema/config.ts";
import { type ConfigPath, formatPath } from "../schema/config_path.ts";
import type { EarlyExitConfig } from "../schema/early_exit.ts";
import type { ConfigFinding } from "../schema/explain.ts";
import type { ExpandedGraph } from "../topology/expanded_graph.ts";

/** Says what is wrong or without effect in a graph's settings of early exit. `expanded`: undefined where it cannot be run. */
export function checkEarlyExit(
  config: Config,
  graph: GraphConfig,
  path: ConfigPath,
  expanded: ExpandedGraph | undefined,
): ConfigFinding[] {
  const findings: ConfigFinding[] = [];
  const models = Object.keys(config.models);
  const members = new Set((expanded?.agents ?? []).flatMap(({ id, config }) => [id, config.model]));
  for (const { settings, at } of writtenIn(graph, path)) {
    for (const [index, name] of settings.never_skip.entries()) {
      if (expanded === undefined || members.has(name)) continue;
      const known = [...members];
      const message = `is ${JSON.stringify(name)}: expected an agent of the graph or a model of one: ${
        quoteList(known)
      }${didYouMean(name, known)}`;
      findings.push(finding("error", [...at, "never_skip", index], name, message));
    }
    const { model } = settings.verdict;
    if (model !== undefined && !Object.hasOwn(config.models, model)) {
      const message = `is ${JSON.stringify(model)}: expected one of ${quoteList(models)}${
        didYouMean(model, models)
      }`;
      findings.push(finding("error", [...at, "verdict", "model"], model, message));
    }
    if (settings.skip_root !== undefined && expanded !== undefined && !canSkipRoot(expanded, settings)) {
      const message = settings.metric === "none"
        ? 'has no effect with metric "none": nothing tells whether the answers agree'
        : "has no effect: the root does not read one cluster of several agents to which this applies";
      findings.push(finding("warning", [...at, "skip_root"], settings.skip_root, message));
    }
  }
  return findings;
}

/** The places where settings are written: an explicit graph has one, layers and clusters may have their own. */
function* writtenIn(
  graph: GraphConfig,
  path: ConfigPath,
): Generator<{ readonly settings: EarlyExitConfig; readonly at: ConfigPath }> {
  yield { settings: graph.early_exit, at: [...path, "early_exit"] };
  if (!("layers" in graph)) return;
  for (const [index, layer] of graph.layers.entries()) {
    const at = [...path, "layers", index];
    if (layer.early_exit !== undefined) yield { settings: layer.early_exit, at: [...at, "early_exit"] };
    if (typeof layer.clusters === "number") continue;
    for (const [place, { early_exit: settings }] of layer.clusters.entries()) {
      if (settings !== undefined) yield { settings, at: [...at, "clusters", place, "early_exit"] };
    }
  }
}

function canSkipRoot(graph: ExpandedGraph, settings: EarlyExitConfig): boolean {
  const root = graph.agents.find(({ id }) => id === graph.rootId);
  const last = root?.reads.length === 1 ? graph.clusters.find(({ id }) => id === root.reads[0]) : undefined;
  return settings.metric !== "none" && last !== undefined && last.agents.length > 1 &&
    last.earlyExit === settings;
}

function finding(
  severity: ConfigFinding["severity"],
  path: ConfigPath,
  value: unknown,
  what: string,
): ConfigFinding {
  return { severity, path, atKey: false, value, message: `${formatPath(path)} ${what}` };
}
