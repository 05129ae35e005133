import type { Gpu } from "../host/gpu.ts";
import { marginMiB } from "../model/memory.ts";
import { LEAST_CONTEXT_TOKENS } from "./place.ts";
import type { Demand } from "./place_types.ts";

/** An engine with the GPUs that were found for it. */

export interface Assignment {
  readonly demand: Demand;
  readonly gpus: readonly Gpu[];
  readonly ranks: number;
}
/** Tokens that an engine's cache must hold at least. */

export function leastTokens(demand: Demand): number {
  return demand.contextTokens ?? Math.min(demand.shape.maxContextTokens, LEAST_CONTEXT_TOKENS);
}
/** Memory of a GPU that engines may be given, in MiB. */

export function capacityMiB(gpu: Gpu): number {
  return Math.max(0, gpu.totalMiB - gpu.usedMiB - marginMiB(gpu.totalMiB));
}
