import type { Gpu } from "../host/gpu.ts";
import type { Reserve } from "../model/memory.ts";
import type { ModelShape } from "../model/model_shape.ts";

/** An engine that needs GPUs. */
export interface Demand {
  /** Of the engine, such as `8b-prefill`. */
  readonly name: string;
  readonly modelKey: string;
  readonly family: "sglang" | "vllm" | "sim";
  readonly role: "whole" | "prefill" | "decode";
  readonly shape: ModelShape;
  /** Asked for; undefined: as few GPUs as hold it. */
  readonly tensorParallel: number | undefined;
  /** Hosts that it spans. */
  readonly nodes: number;
  /** Longest prompt plus answer that must fit into its cache; undefined: as much as there is room for. */
  readonly contextTokens: number | undefined;
  /** Share of each GPU that it was given; undefined: computed. */
  readonly memoryFraction: number | undefined;
  /** Indexes that it may use; undefined: any. */
  readonly gpus: readonly number[] | undefined;
}

/** Where an engine is put, and what it gets there. */
export interface GpuPlacement {
  readonly demand: Demand;
  /** Of each of its hosts. */
  readonly gpus: readonly Gpu[];
  /** Ranks on all its hosts. */
  readonly ranks: number;
  readonly reserve: Reserve;
  readonly weightsMiB: number;
  readonly kvMiB: number;
  readonly kvTokens: number;
  readonly contextTokens: number;
  /** Names of the engines that use one of its GPUs, too. */
  readonly beside: readonly string[];
}

/** Why an engine could not be put anywhere. */
export interface Unplaced {
  readonly demand: Demand;
  /** What it needs of each GPU with the smallest number of GPUs that could do, in MiB. */
  readonly needMiB: number;
  readonly ranks: number;
  /** Most that a free GPU has left, in MiB. */
  readonly largestFreeMiB: number;
}
