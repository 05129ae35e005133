import type { Placement } from "./place_types.ts";
import type { Gpu } from "./plan_types.ts";

/** What the engines before one in a plan have taken of each GPU when it starts. */
export class Started {
  readonly #takenMiB = new Map<string, number>();

  /**
   * The share of memory for the next engine, in its family's own sense, rounded down to three decimals.
   * vLLM: weights, activations and cache of the GPU's whole memory. SGLang: weights and cache of what is free when it
   * starts.
   */
  fractionOf(placement: Placement): number {
    const { demand, gpus, weightsMiB, kvMiB, reserve } = placement;
    const share = (gpu: Gpu) => {
      if (demand.family === "vllm") return (weightsMiB + reserve.activationMiB + kvMiB) / gpu.totalMiB;
      const free = gpu.totalMiB - gpu.usedMiB - (this.#takenMiB.get(gpu.uuid) ?? 0);
      return (weightsMiB + kvMiB) / free;
    };
    // Ranks agree on the smallest cache, so each GPU must bear the fraction.
    const fraction = demand.memoryFraction ?? Math.min(...gpus.map(share));
    const whole = weightsMiB + reserve.activationMiB + reserve.graphsMiB + kvMiB;
    for (const gpu of gpus) this.#takenMiB.set(gpu.uuid, (this.#takenMiB.get(gpu.uuid) ?? 0) + whole);
    return Math.floor(fraction * 1_000) / 1_000;
  }
}
