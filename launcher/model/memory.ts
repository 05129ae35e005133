import type { ModelShape } from "./model_shape.ts";

/** What an engine takes of each of its GPUs beside weights and cache, in MiB, and the options that make it so. */
export interface Reserve {
  readonly activationMiB: number;
  readonly graphsMiB: number;
  /** Tokens of one step: `--chunked-prefill-size`, `--max-num-batched-tokens`. */
  readonly stepTokens: number;
  /** Sequences that decode at once: `--cuda-graph-max-bs`, `--max-num-seqs`. */
  readonly sequences: number;
}

/** How an engine is to use its GPUs: `full` is what it does by itself, `lean` leaves room for others beside it. */
export type ReserveKind = "full" | "lean";

const MIB = 2 ** 20;
const GIB_IN_MIB = 1024;

/**
 * What SGLang keeps free, after `_handle_gpu_memory_settings` of its `srt/server_args.py` (0.5.x): 512 MiB, 1.5 MiB for
 * each token of a step, 2 MiB for each sequence of the largest graph, 1 GiB for 8 ranks; the sizes follow the GPU's.
 */
function sglangReserve(totalMiB: number, tensorParallel: number, kind: ReserveKind): Reserve {
  const gib = totalMiB / GIB_IN_MIB;
  const large = tensorParallel >= 4;
  const [stepTokens, sequences] = kind === "lean"
    ? [2_048, 64]
    : gib < 20
    ? [2_048, 8]
    : gib < 35
    ? [2_048, large ? 80 : 24]
    : gib < 60
    ? [4_096, large ? 160 : 32]
    : gib < 160
    ? [8_192, large ? 512 : 256]
    : [16_384, 512];
  return {
    activationMiB: Math.ceil(512 + stepTokens * 1.5),
    graphsMiB: Math.ceil(sequences * 2 + tensorParallel / 8 * 1_024),
    stepTokens,
    sequences,
  };
}

/**
 * What vLLM uses while it profiles a step: hidden states and the feed-forward part of a step's tokens (about sixteen
 * numbers of two bytes for each hidden one), logits of all sequences twice in 32 bits, 2 GiB for CUDA's context, NCCL
 * and a vision encoder. Its own defaults: 8,192 tokens and 1,024 sequences from 70 GiB on, else 2,048 and 256.
 */
function vllmReserve(
  shape: ModelShape,
  totalMiB: number,
  tensorParallel: number,
  kind: ReserveKind,
): Reserve {
  const big = totalMiB >= 70 * GIB_IN_MIB;
  const [stepTokens, sequences] = kind === "lean" ? [2_048, 64] : big ? [8_192, 1_024] : [2_048, 256];
  const states = stepTokens * shape.hiddenSize * 16 * 2 / MIB;
  const logits = sequences * shape.vocabSize * 4 * 2 / MIB;
  return {
    activationMiB: Math.ceil(2_048 + states + logits / tensorParallel),
    graphsMiB: kind === "lean" ? 768 : 1_536,
    stepTokens,
    sequences,
  };
}

/** What an engine of a family keeps for itself on each of its GPUs. Simulated engines stand for SGLang. */
export function reserveOf(
  family: "sglang" | "vllm" | "sim",
  shape: ModelShape,
  totalMiB: number,
  tensorParallel: number,
  kind: ReserveKind,
): Reserve {
  return family === "vllm"
    ? vllmReserve(shape, totalMiB, tensorParallel, kind)
    : sglangReserve(totalMiB, tensorParallel, kind);
}

/** Weights on each of `ranks` GPUs, in MiB. */
export function weightsMiB(shape: ModelShape, ranks: number): number {
  return Math.ceil(shape.weightBytes / ranks / MIB);
}

/**
 * Keys and values of one token on each of `ranks` GPUs, in bytes. Heads are divided among the ranks; where there are
 * more ranks than heads, heads are copied. The latent vector of DeepSeek's models counts as one head.
 */
export function kvBytesPerTokenAndRank(shape: ModelShape, ranks: number): number {
  return shape.kvBytesPerToken / Math.min(ranks, Math.max(1, shape.kvHeads));
}

/** A GPU keeps this much for what no engine counts: fragments, the driver, the spread among versions. */
export function marginMiB(totalMiB: number): number {
  return Math.max(1_024, Math.ceil(totalMiB * 0.06));
}

/** GiB with one decimal, for people. */
export function gib(mib: number): string {
  return (mib / GIB_IN_MIB).toFixed(1);
}
