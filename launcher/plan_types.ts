import type { ModelConfig, WorkerConfig } from "../cfgs/schema.ts";

/** One GPU, or one MIG slice of it, as the vendor's tool shows it. */
export interface Gpu {
  /** What goes into CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES): an index, or the UUID of a slice. */
  readonly id: string;
  readonly index: number;
  readonly uuid: string;
  readonly name: string;
  readonly vendor: "nvidia" | "amd";
  readonly totalMiB: number;
  /** In use by others when the host was looked at. */
  readonly usedMiB: number;
  /** Such as "9.0"; undefined where the tool does not say. */
  readonly computeCapability: string | undefined;
  readonly numaNode: number | undefined;
}

/** The GPUs that may be planned with. */
export interface HostGpus {
  readonly gpus: readonly Gpu[];
  readonly driver: string | undefined;
  /** True for two GPUs (by index) with a direct link: NVLink, xGMI. */
  linked(a: number, b: number): boolean;
  /** Where this was read: `nvidia-smi`, `rocm-smi`, `--gpus`, a file. */
  readonly source: string;
}

/** What a model needs, computed from its config and weight files. */
export interface ModelShape {
  /** Hub id or folder. */
  readonly model: string;
  readonly weightBytes: number;
  /** Of keys and values of one token, over all layers, in the cache's type. */
  readonly kvBytesPerToken: number;
  readonly layers: number;
  readonly hiddenSize: number;
  readonly attentionHeads: number;
  readonly kvHeads: number;
  readonly vocabSize: number;
  /** Such as bf16, fp8, awq. */
  readonly weightType: string;
  /** Longest context that the model was made for. */
  readonly maxContextTokens: number;
  /** Where this was read. */
  readonly source: string;
}

/** What one engine takes of each of its GPUs, in MiB. */
export interface EngineMemory {
  readonly weightsMiB: number;
  readonly activationMiB: number;
  readonly graphsMiB: number;
  readonly kvMiB: number;
  /** Tokens that the cache of the whole engine holds. */
  readonly kvTokens: number;
}

/** A process to start, without a shell. */
export interface EngineCommand {
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
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
export interface Plan {
  readonly host: HostGpus;
  /** Those that share a GPU are to be started one after the other, in this order: each measures what is free. */
  readonly engines: readonly PlannedEngine[];
  /** What the router is to use, by model key; models that had workers in the configuration keep them. */
  readonly workers: ReadonlyMap<string, readonly WorkerConfig[]>;
  /** What these workers speak, by model key: `--engine` may have changed it. */
  readonly protocols: ReadonlyMap<string, ModelConfig["engine"]>;
  readonly notes: readonly string[];
}
