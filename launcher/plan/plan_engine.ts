import type { EngineLaunch, Launch } from "../../cfgs/schema/launch.ts";
import { dockerCommand } from "../commands/docker.ts";
import type { EngineCommand, EngineSettings } from "../commands/engine_command.ts";
import { sglangCommand, transferOf } from "../commands/sglang.ts";
import { simulatorCommand } from "../commands/sim.ts";
import { NEWEST } from "../commands/versions.ts";
import { vllmCommand } from "../commands/vllm.ts";
import { nothingKnown } from "../host/installed.ts";
import { gib } from "../model/memory.ts";
import type { ModelShape } from "../model/model_shape.ts";
import { fractionOf, type GpuPlacement } from "../place/memory_split.ts";
import type { EngineMemory, PlannedEngine } from "./launch_plan.ts";
import type { PlanOptions } from "./plan_options.ts";
import { ENGINE_HOST, type PlannedPorts } from "./plan_ports.ts";
import type { NamedTarget } from "./targets.ts";
import { hubHome } from "../../ml/hub/environment.ts";

/** A named target with everything that is decided before its command. */
export interface EngineInput extends NamedTarget {
  readonly placement: GpuPlacement | undefined;
  readonly placements: ReadonlyMap<string, GpuPlacement>;
  readonly shape: ModelShape | undefined;
  readonly ports: PlannedPorts;
  readonly launch: Launch;
  /** Simulated halves of a model are one process: that of its first prefill server. */
  readonly within: string | undefined;
}

/** Variables of this host that a container needs for the Hub. */
const PASSED_ON = ["HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"];

/** Completes an engine: its share of memory, its command, and why. */
export async function planEngine(input: EngineInput, options: PlanOptions): Promise<PlannedEngine> {
  const { name, model, target, placement, launch } = input;
  const own = model.launch;
  const memoryFraction = placement === undefined ? own.memory_fraction : fractionOf(placement);
  const settings = await settingsOf(input, memoryFraction, options);
  const bare = commandOf(input, settings, options);
  const image = model.family === "sim" ? undefined : own.image ?? launch[model.family].image;
  return {
    name,
    modelKey: model.modelKey,
    shape: input.shape,
    family: model.family,
    version: settings.version,
    role: target.role,
    gpus: placement?.gpus ?? [],
    tensorParallel: placement?.ranks ?? own.tensor_parallel ?? 1,
    memoryFraction,
    memory: placement === undefined ? undefined : memoryOf(placement),
    host: settings.host,
    port: settings.port,
    bootstrapPort: settings.bootstrapPort,
    command: image === undefined ? bare : dockerCommand(bare, {
      name: `canopy-${name}`,
      image,
      gpus: settings.device === "cpu" ? [] : placement?.gpus ?? [],
      modelCache: launch.model_cache ?? hubHome(options.env),
      weights: settings.weights,
      passedOn: PASSED_ON.filter((variable) => options.env[variable] !== undefined),
    }),
    bare,
    image,
    within: input.within,
    nodes: own.nodes,
    contextTokens: settings.contextTokens,
    reasons: reasonsOf(input, settings),
  };
}

async function settingsOf(
  { name, model, target, placement, placements, shape, ports, launch }: EngineInput,
  memoryFraction: number | undefined,
  options: PlanOptions,
): Promise<EngineSettings> {
  const own = model.launch;
  const { standsFor } = model;
  const family: EngineLaunch = launch[standsFor];
  const command = own.command ?? family.command;
  const inContainer = options.isolated || (own.image ?? family.image) !== undefined;
  const installed = model.family === "sim" || inContainer
    ? nothingKnown
    : await options.installedFor(command);
  const half = target.role === "prefill" ? own.prefill_args : target.role === "decode" ? own.decode_args : [];
  // Both halves of a pair must take the same requests.
  const sameModel = [...placements.values()].filter((other) => other.demand.modelKey === model.modelKey);
  const context = sameModel.length === 0
    ? options.contextTokens ?? model.config.context_tokens
    : Math.min(...sameModel.map((other) => other.contextTokens));
  return {
    family: model.family,
    role: target.role,
    model: model.config.model,
    weights: own.weights ?? model.config.model,
    host: ENGINE_HOST,
    port: ports.http.get(name) ?? 0,
    bootstrapPort: ports.bootstrap.get(name),
    version: own.version ?? family.version ?? installed[standsFor] ?? NEWEST[standsFor],
    device: own.device ?? launch.device,
    placement,
    memoryFraction,
    contextTokens: context === shape?.maxContextTokens ? undefined : context,
    kvCacheType: own.kv_cache_dtype,
    dtype: options.dtype,
    installed,
    // A container sees its own GPUs only, and cannot map the memory of others.
    linkedPair: !inContainer && isLinkedPair(placement, sameModel, options),
    command,
    extraArgs: [...family.extra_args, ...own.extra_args, ...half],
    env: { ...family.env, ...own.env },
  };
}

/** True when NVLink joins an engine with all engines of the other role of its model. */
function isLinkedPair(
  placement: GpuPlacement | undefined,
  sameModel: readonly GpuPlacement[],
  { host }: PlanOptions,
): boolean {
  const others = sameModel.filter((other) => other.demand.role !== placement?.demand.role);
  return placement !== undefined && others.length > 0 &&
    others.every((other) =>
      placement.gpus.every((gpu) =>
        other.gpus.every((peer) => peer === gpu || host.linked(gpu.index, peer.index))
      )
    );
}

function commandOf(input: EngineInput, settings: EngineSettings, options: PlanOptions): EngineCommand {
  if (settings.family === "sglang") return sglangCommand(settings);
  if (settings.family === "vllm") return vllmCommand(settings);
  const { model, ports, launch, target, shape } = input;
  const halves = (role: string) => model.targets.filter((one) => one.role === role).length;
  const first = input.within ?? input.name;
  return simulatorCommand({
    canopy: options.canopy,
    engine: model.standsFor,
    model: settings.model,
    shape,
    host: settings.host,
    port: ports.http.get(first) ?? settings.port,
    pairs: target.role === "whole" ? undefined : {
      prefills: halves("prefill"),
      decodes: halves("decode"),
      bootstrapPort: ports.bootstrap.get(first) ?? 0,
    },
    version: model.launch.version,
    extraArgs: launch.sim_args,
  });
}

function memoryOf({ weightsMiB, reserve, kvMiB, kvTokens }: GpuPlacement): EngineMemory {
  const { activationMiB, graphsMiB } = reserve;
  return { weightsMiB, activationMiB, graphsMiB, kvMiB, kvTokens };
}

function reasonsOf({ model, target, placement, shape }: EngineInput, settings: EngineSettings): string[] {
  const reasons: string[] = [];
  if (placement !== undefined && shape !== undefined) {
    const { gpus, ranks, beside, demand } = placement;
    const which = `${gpus.length === 1 ? "GPU" : "GPUs"} ${gpus.map((gpu) => gpu.id).join(", ")}`;
    reasons.push(beside.length === 0 ? `alone on ${which}` : `shares ${which} with ${beside.join(", ")}`);
    if (ranks > 1) {
      reasons.push(
        demand.tensorParallel === undefined
          ? `divided among ${ranks} GPUs: ${
            gib(shape.weightBytes / 2 ** 20)
          } GiB of weights with their cache do ` +
            `not fit on fewer`
          : `divided among ${ranks} GPUs, as launch.tensor_parallel says`,
      );
    }
    if (settings.contextTokens !== undefined && demand.contextTokens === undefined) {
      reasons.push(`context cut from ${shape.maxContextTokens} tokens to what the cache holds`);
    }
  }
  if (settings.device === "cpu") reasons.push("without a GPU, as launch.device says");
  if (target.role !== "whole" && model.family === "sglang") reasons.push(transferOf(settings).reason);
  if (target.role !== "whole" && model.family === "vllm") reasons.push("the cache travels with NIXL");
  return reasons;
}
