import { didYouMean, quoteList } from "../../base/nearest.ts";
import { promptNeeds } from "./check_prompt.ts";
import { idleExitSettings } from "./idle_exit_settings.ts";
import { builtinPrompts, promptNamed } from "../prompts/builtin.ts";
import type { Config, GraphConfig } from "../schema/config.ts";
import type { ConfigPath } from "../schema/config_path.ts";
import { type ConsensusRules, type EarlyExitConfig, EFFORTS, noEarlyExit } from "../schema/early_exit.ts";
import { type ConfigFinding, findingAt, notOneOf } from "../schema/explain.ts";
import type { ExpandedGraph } from "../topology/expanded_graph.ts";

/** A graph with its path in the configuration; `expanded` is undefined where it cannot be run. */
export interface PlacedGraph {
  readonly graph: GraphConfig;
  readonly path: ConfigPath;
  readonly expanded: ExpandedGraph | undefined;
}

/** Says what is wrong or without effect in a graph's settings of early exit. */
export function checkEarlyExit(
  config: Pick<Config, "models" | "prompts">,
  { graph, path, expanded }: PlacedGraph,
): ConfigFinding[] {
  const { models } = config;
  const findings: ConfigFinding[] = [];
  const members = new Set((expanded?.agents ?? []).flatMap(({ id, config }) => [id, config.model]));
  findings.push(...checkScope(config, { graph, path, expanded }));
  for (const { settings, at } of writtenIn(graph, path)) {
    for (const [index, name] of settings.never_skip.entries()) {
      if (expanded === undefined || members.has(name)) continue;
      const known = [...members];
      const message = `is ${JSON.stringify(name)}: expected an agent of the graph or a model of one: ${
        quoteList(known)
      }${didYouMean(name, known)}`;
      findings.push(findingAt([...at, "never_skip", index], message, { value: name }));
    }
    findings.push(...idleExitSettings(settings, at, expanded));
    const { model } = settings.verdict;
    if (model !== undefined && !Object.hasOwn(models, model)) {
      findings.push(
        findingAt([...at, "verdict", "model"], notOneOf(model, Object.keys(models)), { value: model }),
      );
    }
    if (settings.skip_root !== undefined && expanded !== undefined && !canSkipRoot(expanded, settings)) {
      const message = settings.metric === "none"
        ? 'has no effect with metric "none": nothing tells whether the answers agree'
        : "has no effect: the root does not read one cluster of several agents to which this applies";
      findings.push(
        findingAt([...at, "skip_root"], message, { value: settings.skip_root, severity: "warning" }),
      );
    }
  }
  return findings;
}

/** Says where a run's consensus is asked for and cannot be had. */
function checkScope(
  config: Pick<Config, "models" | "prompts">,
  { graph, path, expanded }: PlacedGraph,
): ConfigFinding[] {
  const findings: ConfigFinding[] = [];
  const add = (
    at: ConfigPath,
    message: string,
    value: unknown,
    severity: ConfigFinding["severity"] = "error",
  ) => findings.push(findingAt(at, message, { value, severity }));
  for (const { settings: { scope, metric, consensus }, at, ofGraph } of writtenIn(graph, path)) {
    if (scope === "cluster") {
      if (JSON.stringify(consensus) !== JSON.stringify(noEarlyExit.consensus)) {
        add([...at, "consensus"], 'has no effect without scope "run"', consensus, "warning");
      }
      continue;
    }
    if (!ofGraph) {
      add([...at, "scope"], 'is "run": only the early_exit of the graph itself can end a run', scope);
      continue;
    }
    if (metric !== "none" && metric !== "answer") {
      add(
        [...at, "metric"],
        `is "${metric}", but with scope "run" final answers are counted: expected answer, or another early_exit for each layer`,
        metric,
      );
    }
    findings.push(...checkRules(config.models, consensus, [...at, "consensus"]));
    findings.push(...checkRewrite(config, consensus, [...at, "consensus"]));
    if (expanded === undefined) continue;
    const voters = expanded.agents.length - 1;
    if (expanded.joined !== undefined) {
      add(
        [...at, "scope"],
        "has no effect: the answers of all agents of the last layer are the run's",
        scope,
        "warning",
      );
    } else if ((consensus.agree ?? 2) > voters) {
      const message = `is never reached: ${voters} agents write before the root`;
      add([...at, "consensus", "agree"], message, consensus.agree, "warning");
    }
  }
  return findings;
}

/** Says who cannot write up what a run's agents agree on. */
function checkRewrite(
  config: Pick<Config, "models" | "prompts">,
  { finish, rewrite }: ConsensusRules,
  at: ConfigPath,
): ConfigFinding[] {
  const unset = noEarlyExit.consensus.rewrite;
  if (finish === "text") {
    if (JSON.stringify(rewrite) === JSON.stringify(unset)) return [];
    const message = 'has no effect without finish "rewrite"';
    return [findingAt([...at, "rewrite"], message, { value: rewrite, severity: "warning" })];
  }
  const findings: ConfigFinding[] = [];
  const { model, prompt } = rewrite;
  const { models } = config;
  if (model !== undefined && !Object.hasOwn(models, model)) {
    const message = notOneOf(model, Object.keys(models));
    findings.push(findingAt([...at, "rewrite", "model"], message, { value: model }));
  }
  const template = promptNamed(config, prompt);
  if (template === undefined) {
    const message = notOneOf(prompt, [...Object.keys(config.prompts), ...Object.keys(builtinPrompts)]);
    findings.push(findingAt([...at, "rewrite", "prompt"], message, { value: prompt }));
  } else if (!promptNeeds(template).responses) {
    const message = `is "${prompt}", which has no slot for the texts that agree: put [responses] into it`;
    findings.push(findingAt([...at, "rewrite", "prompt"], message, { value: prompt }));
  }
  return findings;
}

/** Says which models of learned skills are not there, and which rules nothing looks at beside the others. */
function checkRules(models: Config["models"], rules: ConsensusRules, at: ConfigPath): ConfigFinding[] {
  const { skills, difficulties } = rules;
  const known = [
    { skills, place: [...at, "skills"] },
    ...(difficulties ?? []).map((kind, index) => ({
      skills: kind.skills,
      place: [...at, "difficulties", index, "skills"],
    })),
  ];
  const strangers = known.flatMap(({ skills, place }) =>
    Object.keys(skills).filter((name) => !Object.hasOwn(models, name)).map((name) =>
      findingAt([...place, name], notOneOf(name, Object.keys(models)), { value: name, severity: "error" })
    )
  );
  return [
    ...strangers,
    ...idleRules(rules).map(([field, without]) =>
      findingAt([...at, field], `has no effect without ${without}`, {
        value: rules[field],
        severity: "warning",
      })
    ),
  ];
}

/** Rules that nothing looks at, with what they would need. */
function idleRules(rules: ConsensusRules): (readonly [field: keyof ConsensusRules, without: string])[] {
  const { posterior, audit, start, undecided } = rules;
  const unset = noEarlyExit.consensus;
  const needs: readonly (readonly [field: keyof ConsensusRules, isMet: boolean, without: string])[] = [
    ["difficulties", posterior !== undefined, "posterior"],
    ["most_wrong", audit > 0, "audit"],
    ["usual_votes", audit > 0, "audit"],
    ["stage_ms", start === "staged", 'start "staged"'],
    ["cut", posterior === undefined, "agree or share: any vote may change a posterior"],
    [
      "cut",
      posterior !== undefined || undecided === "root",
      'undecided "root": any vote may change who leads',
    ],
    [
      "undecided_level",
      posterior !== undefined && undecided === "leader",
      'posterior and undecided "leader"',
    ],
  ];
  return needs.flatMap(([field, isMet, without]) =>
    isMet || rules[field] === unset[field] ? [] : [[field, without]]
  );
}

/** The places where settings are written: an explicit graph has one, layers and clusters may have their own. */
function* writtenIn(
  graph: GraphConfig,
  path: ConfigPath,
): Generator<{ readonly settings: EarlyExitConfig; readonly at: ConfigPath; readonly ofGraph: boolean }> {
  yield { settings: graph.early_exit, at: [...path, "early_exit"], ofGraph: true };
  for (const { level, at } of effortLevels(graph, path)) {
    if (level.early_exit !== undefined) {
      yield { settings: level.early_exit, at: [...at, "early_exit"], ofGraph: true };
    }
  }
  if (!("layers" in graph)) return;
  for (const [index, layer] of graph.layers.entries()) {
    const at = [...path, "layers", index];
    if (layer.early_exit !== undefined) {
      yield { settings: layer.early_exit, at: [...at, "early_exit"], ofGraph: false };
    }
    if (typeof layer.clusters === "number") continue;
    for (const [place, { early_exit: settings }] of layer.clusters.entries()) {
      if (settings !== undefined) {
        yield { settings, at: [...at, "clusters", place, "early_exit"], ofGraph: false };
      }
    }
  }
}

/** The levels of `reasoning_effort` that are written. */
function effortLevels({ effort }: GraphConfig, path: ConfigPath) {
  if (effort === "root") return [];
  return EFFORTS.flatMap((which) => {
    const level = effort[which];
    return level === undefined ? [] : [{ level, at: [...path, "effort", which] }];
  });
}

/** Says which graphs of levels of effort are not there, and where there are no levels. */
export function checkEffort(
  { graphs }: Pick<Config, "graphs">,
  { graph, path, expanded }: PlacedGraph,
): ConfigFinding[] {
  return effortLevels(graph, path).flatMap(({ level: { graph: other }, at }) => {
    if (expanded?.joined !== undefined) {
      const message =
        "has no effect: the answers of all agents of the last layer are the run's, and none ends early";
      return [findingAt(at, message, { severity: "warning" })];
    }
    if (other === undefined || Object.hasOwn(graphs, other)) return [];
    return [findingAt([...at, "graph"], notOneOf(other, Object.keys(graphs)), { value: other })];
  });
}

function canSkipRoot(graph: ExpandedGraph, settings: EarlyExitConfig): boolean {
  const root = graph.agents.find(({ id }) => id === graph.rootId);
  const last = root?.reads.length === 1 ? graph.clusters.find(({ id }) => id === root.reads[0]) : undefined;
  return graph.joined === undefined && settings.metric !== "none" && last !== undefined &&
    last.agents.length > 1 &&
    last.earlyExit === settings;
}
