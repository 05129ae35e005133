import type { EngineFamily } from "../engine_kind.ts";
import type { ModelShape } from "./model_shape.ts";

/** Two ways for an engine to use its GPUs: `full` is its own default, `lean` leaves room for a cache or for others. */
export type ReserveKind = "full" | "lean";

/** Memory that an engine takes of each of its GPUs beside weights and cache, and the options that make it so. */
export interface Reserve {
  readonly kind: ReserveKind;
  readonly activationMiB: number;
  readonly graphsMiB: number;
  /** Tokens of one step: `--chunked-prefill-size`, `--max-num-batched-tokens`. */
  readonly stepTokens: number;
  /** Sequences that decode at once: `--cuda-graph-max-bs`, `--max-num-seqs`. */
  readonly sequences: number;
}

/** An engine and a GPU for which a reserve is wanted. */
export interface ReserveQuery {
  readonly family: EngineFamily;
  readonly shape: ModelShape;
  /** Memory of the whole GPU. */
  readonly totalMiB: number;
  readonly ranks: number;
  readonly kind: ReserveKind;
}

const MIB = 2 ** 20;
const GIB_IN_MIB = 1024;

/**
 * SGLang's reserve, after `_handle_gpu_memory_settings` of its `srt/server_args.py` (0.5.x): 512 MiB, 1.5 MiB for
 * each token of a step, 2 MiB for each sequence of the largest graph, 1 GiB for 8 ranks; the sizes follow the GPU's.
 */
function sglangReserve({ totalMiB, ranks, kind }: ReserveQuery): Reserve {
  const gib = totalMiB / GIB_IN_MIB;
  const large = ranks >= 4;
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
    kind,
    activationMiB: Math.ceil(512 + stepTokens * 1.5),
    graphsMiB: Math.ceil(sequences * 2 + ranks / 8 * 1_024),
    stepTokens,
    sequences,
  };
}

/**
 * vLLM's reserve, which it measures by a trial step: hidden states and the feed-forward part of a step's tokens (about
 * sixteen numbers of two bytes for each hidden one), logits of all sequences twice in 32 bits, 2 GiB for CUDA's context,
 * NCCL and a vision encoder. Its own defaults: 8,192 tokens and 1,024 sequences from 70 GiB on, else 2,048 and 256.
 */
function vllmReserve({ shape, totalMiB, ranks, kind }: ReserveQuery): Reserve {
  const big = totalMiB >= 70 * GIB_IN_MIB;
  const [stepTokens, sequences] = kind === "lean" ? [2_048, 64] : big ? [8_192, 1_024] : [2_048, 256];
  const states = stepTokens * shape.hiddenSize * 16 * 2 / MIB;
  const logits = sequences * shape.vocabSize * 4 * 2 / MIB;
  return {
    kind,
    activationMiB: Math.ceil(2_048 + states + logits / ranks),
    graphsMiB: kind === "lean" ? 768 : 1_536,
    stepTokens,
    sequences,
  };
}

/** The reserve of an engine on each of its GPUs. Simulated engines stand for SGLang. */
export function reserveOf(query: ReserveQuery): Reserve {
  return query.family === "vllm" ? vllmReserve(query) : sglangReserve(query);
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

/** Memory of a GPU that no engine counts and none is given: fragments, the driver, the spread among versions. */
export function marginMiB(totalMiB: number): number {
  return Math.max(1_024, Math.ceil(totalMiB * 0.06));
}

/** GiB with one decimal, for people. */
export function gib(mib: number): string {
  return (mib / GIB_IN_MIB).toFixed(1);
}
