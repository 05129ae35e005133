import type { ConfigPath } from "../schema/config_path.ts";
import { type EarlyExitConfig, noEarlyExit } from "../schema/early_exit.ts";
import { type ConfigFinding, findingAt } from "../schema/explain.ts";
import type { ExpandedGraph } from "../topology/expanded_graph.ts";

type Metric = EarlyExitConfig["metric"];

const METRICS: readonly Metric[] = ["q", "answer", "verdict", "agreement", "random"];

/** The metrics that look at a setting. */
const USERS: readonly (readonly [keyof EarlyExitConfig, readonly Metric[]])[] = [
  ["min_agents", METRICS],
  ["deadline_ms", METRICS],
  ["keep", METRICS],
  ["similarity", ["q", "agreement"]],
  ["tau", ["q"]],
  ["gamma", ["q"]],
  ["decide", ["q"]],
  ["threshold", ["q"]],
  ["paper_literal", ["q"]],
  ["without_logprobs", ["q"]],
  ["veto_below", ["agreement"]],
  ["probability", ["random"]],
  ["verdict", ["verdict", "agreement"]],
];

/** Says which settings of an early exit nothing looks at beside the others. */
export function idleExitSettings(
  settings: EarlyExitConfig,
  at: ConfigPath,
  expanded: ExpandedGraph | undefined,
): ConfigFinding[] {
  const { scope, decide, answer, min_agents: least } = settings;
  const metric = scope === "run" ? "none" : settings.metric;
  const findings: ConfigFinding[] = [];
  const add = (path: ConfigPath, message: string, value: unknown) =>
    findings.push(findingAt([...at, ...path], message, { value, severity: "warning" }));
  const isWritten = (field: keyof EarlyExitConfig) =>
    JSON.stringify(settings[field]) !== JSON.stringify(noEarlyExit[field]);
  for (const [field, users] of USERS) {
    if (!isWritten(field) || users.includes(metric)) continue;
    const here = scope === "run" ? 'scope "run"' : `metric "${metric}"`;
    add([field], `has no effect with ${here}`, settings[field]);
  }
  if (metric === "q" && decide !== "threshold" && isWritten("threshold")) {
    add(["threshold"], 'has no effect without decide "threshold"', settings.threshold);
  }
  for (const [field, stop] of [["level", "posterior"], ["window", "window"]] as const) {
    if (answer.stop === stop || answer[field] === noEarlyExit.answer[field]) continue;
    add(["answer", field], `has no effect without stop "${stop}"`, answer[field]);
  }
  const sizes = (expanded?.clusters ?? []).filter(({ earlyExit }) => earlyExit === settings)
    .map(({ agents }) => agents.length);
  const most = Math.max(...sizes);
  if (metric !== "none" && least !== undefined && sizes.length > 0 && least > most) {
    add(["min_agents"], `is never reached: the largest cluster to which this applies has ${most}`, least);
  }
  return findings;
}
