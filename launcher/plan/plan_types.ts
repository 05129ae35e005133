import type { ModelConfig, WorkerConfig } from "../../cfgs/schema/config.ts";
import type { EngineCommand } from "../commands/engine_command.ts";
import type { Gpu, HostGpus } from "../host/gpu.ts";
import type { ModelShape } from "../model/model_shape.ts";
import type { LaunchTarget, ModelTargets } from "../place/targets.ts";

/** What one engine takes of each of its GPUs, in MiB. */
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
  readonly family: "sglang" | "vllm" | "sim";
  readonly role: "whole" | "prefill" | "decode";
  readonly gpus: readonly Gpu[];
  readonly tensorParallel: number;
  /** Share of each GPU's memory that the engine may take, in the family's own sense. */
  readonly memoryFraction: number | undefined;
  readonly memory: EngineMemory | undefined;
  readonly host: string;
  readonly port: number;
  readonly bootstrapPort: number | undefined;
  /** What is started on this host: the engine itself, or a container with it. */
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
  /** Why it is where it is, one sentence each. */
  readonly reasons: readonly string[];
}

/** All engines of a configuration on one host. */
export interface LaunchPlan {
  readonly host: HostGpus;
  /** Those that share a GPU are to be started one after the other, in this order: each measures what is free. */
  readonly engines: readonly PlannedEngine[];
  /** What the router is to use, by model key; models that had workers in the configuration keep them. */
  readonly workers: ReadonlyMap<string, readonly WorkerConfig[]>;
  /** What these workers speak, by model key: `--engine` may have changed it. */
  readonly protocols: ReadonlyMap<string, ModelConfig["engine"]>;
  readonly notes: readonly string[];
}
/** An engine to start, with its name. */

export interface NamedTarget {
  readonly name: string;
  readonly model: ModelTargets;
  readonly target: LaunchTarget;
}
/** Ports by the name of the engine. */

export interface PlannedPorts {
  readonly http: ReadonlyMap<string, number>;
  readonly bootstrap: ReadonlyMap<string, number>;
  /** Found in use by others. */
  readonly skipped: readonly number[];
}
