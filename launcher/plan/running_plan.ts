import { CanopyError } from "../../base/errors.ts";
import type { Config, ModelConfig } from "../../cfgs/schema/config.ts";
import { formatPath } from "../../cfgs/schema/config_path.ts";
import type { EngineFamily } from "../engine_kind.ts";
import type { LaunchPlan } from "./launch_plan.ts";
import { targetsOf } from "./targets.ts";

/** Settings of a model that its engines were started by. */
const OF_ENGINES = ["engine", "model", "workers", "launch", "context_tokens"] as const;

/** Engines that run, and what they were planned by. */
export interface RunningPlan {
  readonly plan: LaunchPlan;
  /** The configuration as it was planned, before `withPlannedWorkers`. */
  readonly planned: Config;
  /** Family that all engines were started as, if one was asked for. */
  readonly family: EngineFamily | undefined;
}

/** A configuration in front of engines that run already. */
export interface ConfigOnPlan {
  readonly config: Config;
  /** Paths of changed settings that the engines would have to be started anew for. */
  readonly later: readonly string[];
}

/**
 * A configuration that was read again, in front of the engines that run: these stay as they were started. Throws
 * `not_started` (400) for a model whose engines do not run.
 */
export function onRunningPlan(read: Config, { plan, planned, family }: RunningPlan): ConfigOnPlan {
  const started = new Set(plan.engines.map(({ modelKey }) => modelKey));
  const later: string[] = [];
  const models: Config["models"] = {};
  const targets = new Map(targetsOf(read, family).map((model) => [model.modelKey, model.targets.length]));
  for (const [name, model] of Object.entries(read.models)) {
    const before = planned.models[name];
    if (!started.has(name) || before === undefined) {
      if ((targets.get(name) ?? 0) > 0) throw notStarted(name);
      models[name] = model;
      continue;
    }
    const changed = OF_ENGINES.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(model[key]));
    later.push(...changed.map((key) => formatPath(["models", name, key])));
    const kept = { ...model, ...settingsOfEngines(before), ...placesOf(name, before, plan) };
    models[name] = inOrderOf(before, kept);
  }
  const gone = [...started].filter((name) => read.models[name] === undefined);
  later.push(...gone.map((name) => `${formatPath(["models", name])} (its engines run until then)`));
  return { config: { ...read, models }, later };
}

function settingsOfEngines(before: ModelConfig): Pick<ModelConfig, typeof OF_ENGINES[number]> {
  const { engine, model, workers, launch, context_tokens } = before;
  return { engine, model, workers, launch, context_tokens };
}

/** The settings of `model`, those that `before` has too in its order: what has not changed is the same text. */
function inOrderOf(before: ModelConfig, model: ModelConfig): ModelConfig {
  const gone = Object.keys(before).filter((key) => !Object.hasOwn(model, key));
  return { ...before, ...Object.fromEntries(gone.map((key) => [key, undefined])), ...model };
}

/** Where the plan has put a model, over what the configuration says. */
function placesOf(
  name: string,
  before: ModelConfig,
  plan: LaunchPlan,
): Pick<ModelConfig, "engine" | "workers"> {
  return {
    engine: plan.protocols.get(name) ?? before.engine,
    workers: [...plan.workers.get(name) ?? before.workers],
  };
}

function notStarted(name: string): CanopyError {
  return new CanopyError(
    `${
      formatPath(["models", name])
    } needs engines that this launch has not started: start it anew, or name ` +
      "servers elsewhere in its workers",
    { code: "not_started", status: 400, param: formatPath(["models", name]) },
  );
}
