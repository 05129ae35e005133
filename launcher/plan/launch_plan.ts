import type { Config, ModelConfig, WorkerConfig } from "../../cfgs/schema/config.ts";
import type { EngineCommand } from "../commands/engine_command.ts";
import type { EngineFamily, EngineRole } from "../engine_kind.ts";
import type { Gpu, HostGpus } from "../host/gpu.ts";
import type { ModelShape } from "../model/model_shape.ts";

/** Memory of one engine on each of its GPUs, in MiB. */
export interface EngineMemory {
  readonly weightsMiB: number;
  readonly activationMiB: number;
  readonly graphsMiB: number;
  readonly kvMiB: number;
  /** Tokens that the cache of the whole engine holds. */
  readonly kvTokens: number;
}

/** One engine process (with its tensor-parallel ranks). */
export interface PlannedEngine {
  /** `<model key>`, with `-prefill`, `-decode` and a number where there are several. */
  readonly name: string;
  /** Key of `models`. */
  readonly modelKey: string;
  readonly shape: ModelShape | undefined;
  readonly family: EngineFamily;
  /** Version that its options are made for; of a simulated engine, the one that it stands for. */
  readonly version: string;
  readonly role: EngineRole;
  readonly gpus: readonly Gpu[];
  readonly tensorParallel: number;
  /** Share of each GPU's memory that the engine may take, in the family's own sense. */
  readonly memoryFraction: number | undefined;
  readonly memory: EngineMemory | undefined;
  readonly host: string;
  readonly port: number;
  readonly bootstrapPort: number | undefined;
  /** Command for this host: the engine itself, or a container with it. */
  readonly command: EngineCommand;
  /** The engine itself; the same as `command` where no container is used. */
  readonly bare: EngineCommand;
  /** Container image, where one is used. */
  readonly image: string | undefined;
  /** The engine whose process runs this one, too; then nothing is started for it. Simulated pairs are one process. */
  readonly within: string | undefined;
  /** Hosts that it spans; `gpus` are those of each host. More than one cannot be started from here. */
  readonly nodes: number;
  /** Longest prompt plus answer that the engine is told to take; undefined: its model's own. */
  readonly contextTokens: number | undefined;
  /** Reasons for its place and options, one sentence each. */
  readonly reasons: readonly string[];
}

/** All engines of a configuration on one host. */
export interface LaunchPlan {
  readonly host: HostGpus;
  /** Those that share a GPU are to be started one after the other, in this order: each measures what is free. */
  readonly engines: readonly PlannedEngine[];
  /** Workers that the router is to use, by model key; addresses elsewhere are kept from the configuration. */
  readonly workers: ReadonlyMap<string, readonly WorkerConfig[]>;
  /** Protocols of these workers, by model key: `--engine` may have changed them. */
  readonly protocols: ReadonlyMap<string, ModelConfig["engine"]>;
  readonly notes: readonly string[];
}

/** The configuration that a router uses in front of a plan's engines. */
export function withPlannedWorkers(config: Config, plan: LaunchPlan): Config {
  const models = Object.entries(config.models).map(([key, model]): [string, ModelConfig] => [key, {
    ...model,
    engine: plan.protocols.get(key) ?? model.engine,
    workers: [...plan.workers.get(key) ?? model.workers],
  }]);
  return { ...config, models: Object.fromEntries(models) };
}

/** Content of MoA-vllm's `model2port.json`: the port of each model's first engine, under the name that the engine knows. */
export function modelPortsOf(config: Config, plan: LaunchPlan): Record<string, number> {
  const ports: Record<string, number> = {};
  for (const engine of plan.engines) {
    const model = config.models[engine.modelKey]?.model ?? engine.modelKey;
    if (engine.role !== "prefill") ports[model] ??= engine.port;
  }
  return ports;
}
