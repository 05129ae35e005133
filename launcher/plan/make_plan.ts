import { CanopyError } from "../../base/errors.ts";
import type { Config, ModelConfig, WorkerConfig } from "../../cfgs/schema/config.ts";
import type { Launch } from "../../cfgs/schema/launch.ts";
import { type HostGpus, isBusy } from "../host/gpu.ts";
import type { ModelShape } from "../model/model_shape.ts";
import type { Demand } from "../place/demand.ts";
import { infeasible } from "../place/infeasible.ts";
import type { GpuPlacement } from "../place/memory_split.ts";
import { place } from "../place/place.ts";
import type { LaunchPlan, PlannedEngine } from "./launch_plan.ts";
import { planEngine } from "./plan_engine.ts";
import type { PlanOptions } from "./plan_options.ts";
import { assignPorts, type PlannedPorts } from "./plan_ports.ts";
import {
  launchOf,
  type LaunchTarget,
  type ModelTargets,
  type NamedTarget,
  nameTargets,
  targetsOf,
} from "./targets.ts";

/**
 * Decides where each engine of a configuration runs, with which memory, ports and command.
 * Throws a `CanopyError` that says what is missing when that cannot be.
 */
export async function makePlan(config: Config, options: PlanOptions): Promise<LaunchPlan> {
  const launch = launchOf(config);
  const models = targetsOf(config, options.engine);
  const named = nameTargets(models);
  const shapes = await shapesOf(models, launch, options);
  const placements = placeAll(demandsOf(named, shapes, { launch, options }), options.host);
  const ports = await assignPorts(named, config, options);
  const planned = new Map<LaunchTarget, PlannedEngine>();
  for (const one of named) {
    const placement = placements.get(one.name);
    const shape = shapes.get(one.model.modelKey);
    const input = { ...one, placement, placements, shape, ports, launch, within: processOf(one, named) };
    planned.set(one.target, await planEngine(input, options));
  }
  const engines = [...planned.values()];
  return {
    host: options.host,
    engines,
    workers: new Map(models.map((model) => [model.modelKey, workersOf(model, planned)])),
    protocols: new Map(
      models.map(({ modelKey, protocol }): [string, ModelConfig["engine"]] => [modelKey, protocol]),
    ),
    notes: notesOf({ engines, models, ports }, config, options),
  };
}

/** The engine whose process runs a simulated half; undefined: it has its own. */
function processOf({ name, model, target }: NamedTarget, named: readonly NamedTarget[]): string | undefined {
  if (model.family !== "sim" || target.role === "whole") return undefined;
  const first = named.find((other) => other.model === model && other.target.role === "prefill");
  return first === undefined || first.name === name ? undefined : first.name;
}

/** True for an engine that is given GPUs. */
function needsGpus(model: ModelTargets, launch: Launch, { host }: PlanOptions): boolean {
  if (model.family === "sim" && host.gpus.length === 0) return false;
  return (model.launch.device ?? launch.device) === "gpu";
}

async function shapesOf(
  models: readonly ModelTargets[],
  launch: Launch,
  options: PlanOptions,
): Promise<Map<string, ModelShape>> {
  const wanted = models.filter((model) => model.targets.length > 0 && needsGpus(model, launch, options));
  const shapes = await Promise.all(wanted.map(async (model): Promise<[string, ModelShape]> => {
    const source = model.launch.weights ?? model.config.model;
    return [model.modelKey, await options.shapeOf(source, model.launch.kv_cache_dtype)];
  }));
  return new Map(shapes);
}

/** Places engines on the GPUs; gives their placements by name. Throws 400 `no_room`. */
function placeAll(
  demands: readonly Demand[],
  host: HostGpus,
): ReadonlyMap<string, GpuPlacement> {
  const result = place(demands, host);
  if ("unplaced" in result) throw infeasible(demands, host, result.unplaced);
  for (const placement of result.placed) checkCache(placement);
  return new Map(result.placed.map((placement) => [placement.demand.name, placement]));
}

/** The GPUs that engines of models with a shape need. Throws 400 `several_hosts` for an engine that spans hosts. */
function demandsOf(
  named: readonly NamedTarget[],
  shapes: ReadonlyMap<string, ModelShape>,
  { launch, options }: { readonly launch: Launch; readonly options: PlanOptions },
): Demand[] {
  return named.flatMap(({ name, model, target }): Demand[] => {
    const shape = shapes.get(model.modelKey);
    if (shape === undefined) return [];
    const own = model.launch;
    if (own.nodes > 1 && !options.severalHosts) {
      throw new CanopyError(
        `Cannot plan model "${model.modelKey}" on one host: its launch.nodes is ${own.nodes}: write files for ` +
          `several hosts with --emit kubernetes or --emit slurm`,
        { code: "several_hosts", status: 400 },
      );
    }
    const context = options.contextTokens ?? model.config.context_tokens;
    return [{
      name,
      modelKey: model.modelKey,
      family: model.family,
      role: target.role,
      shape,
      tensorParallel: own.tensor_parallel === undefined ? undefined : own.tensor_parallel * own.nodes,
      nodes: own.nodes,
      contextTokens: context,
      memoryFraction: own.memory_fraction,
      gpus: own.gpus ?? launch.gpus,
    }];
  });
}

/** A fraction that somebody chose may leave less than one request needs. */
function checkCache({ demand, kvTokens, contextTokens }: GpuPlacement): void {
  if (demand.memoryFraction === undefined || (kvTokens >= contextTokens && kvTokens >= 1_024)) return;
  throw new CanopyError(
    `Cannot place ${demand.name}: launch.memory_fraction ${demand.memoryFraction} leaves a cache for ${kvTokens} ` +
      `tokens, less than one request of ${
        Math.max(contextTokens, 1_024)
      }: give a larger fraction, or leave it out`,
    { code: "no_room", status: 400 },
  );
}

/** Workers of a model for the router: its planned engines, and the addresses that are kept. */
function workersOf(model: ModelTargets, planned: ReadonlyMap<LaunchTarget, PlannedEngine>): WorkerConfig[] {
  const engineOf = (target: LaunchTarget) => {
    const engine = planned.get(target);
    if (engine === undefined) throw new Error(`No engine was planned for ${model.modelKey}`);
    return engine;
  };
  const url = (target: LaunchTarget) => `http://${engineOf(target).host}:${engineOf(target).port}`;
  return model.workers.map((worker): WorkerConfig => {
    if ("kept" in worker) return worker.kept;
    if ("whole" in worker) return url(worker.whole);
    const { prefill, decode } = worker;
    // vLLM's prefill server names its side channel itself.
    const bootstrap_port = model.protocol === "sglang-pd" ? engineOf(prefill).bootstrapPort : undefined;
    return { prefill: url(prefill), bootstrap_port, decode: url(decode) };
  });
}

function notesOf(
  { engines, models, ports }: {
    readonly engines: readonly PlannedEngine[];
    readonly models: readonly ModelTargets[];
    readonly ports: PlannedPorts;
  },
  config: Config,
  { host }: PlanOptions,
): string[] {
  const notes: string[] = [];
  const used = new Set(engines.flatMap((engine) => engine.gpus.map((gpu) => gpu.uuid)));
  const names = host.gpus.filter((gpu) => !used.has(gpu.uuid) && !isBusy(gpu)).map((gpu) => gpu.id);
  if (names.length > 0 && engines.length > 0) {
    notes.push(
      `${names.length === 1 ? "GPU" : "GPUs"} ${
        names.join(", ")
      } of ${host.gpus.length} will be idle: raise ` +
        `launch.replicas or launch.tensor_parallel of a model to use more`,
    );
  }
  for (const { modelKey, targets } of models) {
    if (targets.length === 0) notes.push(`Model ${modelKey} is served elsewhere: nothing is started for it`);
  }
  if (ports.skipped.length > 0) {
    notes.push(`Ports that others use were left out: ${ports.skipped.join(", ")}`);
  }
  const { embedder } = config.scorer;
  if (embedder === "onnx" || embedder === "auto") {
    notes.push("The embedding model of the scorer runs on this host's CPU, inside Canopy");
  }
  return notes;
}
