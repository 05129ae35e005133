import type { GpuPlacement } from "./place_types.ts";

/**
 * The share of memory that an engine is told, in its family's own sense, rounded down to three decimals. vLLM: weights,
 * activations and cache of the GPU's whole memory. SGLang: weights and cache of what is free when it starts.
 *
 * What is free then depends, beside others, on which of them run: least for one that is started again after a crash,
 * which finds what it had itself. SGLang's share is one of that; where more is free, `--max-total-tokens` holds it to
 * the plan.
 */
export function fractionOf({ demand, gpus, weightsMiB, kvMiB, reserve, beside }: GpuPlacement): number {
  const own = weightsMiB + reserve.activationMiB + reserve.graphsMiB + kvMiB;
  const shares = gpus.map((gpu) => {
    if (demand.family === "vllm") return (weightsMiB + reserve.activationMiB + kvMiB) / gpu.totalMiB;
    return (weightsMiB + kvMiB) / (beside.length > 0 ? own : gpu.totalMiB - gpu.usedMiB);
  });
  // Ranks agree on the smallest cache, so each GPU must bear the fraction.
  return Math.floor((demand.memoryFraction ?? Math.min(...shares)) * 1_000) / 1_000;
}
