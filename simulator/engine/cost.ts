/** The work of one engine step. */
export interface StepLoad {
  /** Prompt tokens computed in this step. */
  prefillTokens: number;
  /** Sum over the chunks of n (c + n/2), with n new tokens on top of c cached ones. */
  prefillAttention: number;
  /** Sequences that decode one token. */
  decodes: number;
  /** Sum of the context lengths of those sequences, in tokens. */
  decodeContext: number;
  /** Sequences in the batch, prefills and decodes. */
  sequences: number;
}

/** Cost model of an engine. Durations in ms. */
export interface CostModel {
  /** Tokens that fit beside the weights into the GPU's memory. */
  readonly kvTokens: number;
  /** Time in the HTTP front end before a request reaches the scheduler. */
  readonly requestMs: number;
  /** Time of one step, scheduling included. */
  stepMs(load: StepLoad): number;
  /** Time from the sending of the last KV to its use on another GPU. */
  readonly transferLatencyMs: number;
  /** Time that the KV of one token takes on the link. */
  readonly transferMsPerToken: number;
}

/** Constants of the fit; times in ms, lengths in tokens. */
interface Calibration {
  readonly f: number;
  readonly b: number;
  readonly d: number;
  readonly q: number;
  readonly d0: number;
  readonly d1: number;
  readonly d2: number;
  readonly kvTokens: number;
  /** Bytes of KV of one token, bf16. */
  readonly kvBytes: number;
}

/**
 * Fits to measured H200 bf16 kernels (vLLM 0.24, one GPU), Qwen3 shapes: mean error 2-4 %, at most 17 %.
 * Prefill of n tokens on top of c: T(n, c) = (f^q + (b n)^q)^(1/q) + d n (c + n/2).
 * Decode of B sequences with S tokens of context together: D(B, S) = d0 + d1 B + d2 S.
 * KV capacity: 141 GB x 0.9 less weights and activations, at 144 or 256 KiB per token.
 */
const H200: Record<"4b" | "8b" | "32b", Calibration> = {
  "4b": {
    f: 3.445,
    b: 0.01150,
    d: 8.606e-7,
    q: 1.88,
    d0: 3.427,
    d1: 0.00901,
    d2: 3.402e-5,
    kvTokens: 768_000,
    kvBytes: 147_456,
  },
  "8b": {
    f: 5.381,
    b: 0.02036,
    d: 8.966e-7,
    q: 2.11,
    d0: 5.184,
    d1: 0.01258,
    d2: 3.402e-5,
    kvTokens: 704_000,
    kvBytes: 147_456,
  },
  "32b": {
    f: 19.995,
    b: 0.08731,
    d: 3.448e-6,
    q: 2.74,
    d0: 19.031,
    d1: 0.03538,
    d2: 6.647e-5,
    kvTokens: 208_000,
    kvBytes: 262_144,
  },
};

/** Engine overhead per step: a constant, and a part per sequence of the batch; in ms. */
const STEP_OVERHEAD_MS = 0.7;
const SEQUENCE_OVERHEAD_MS = 0.05;

/** KV transfer between two GPUs: 64 GB/s (an estimate for one NIC or half an NVLink) and 1 ms for hand-shake and polls. */
const LINK_BYTES_PER_MS = 64e6;
const LINK_LATENCY_MS = 1;

/**
 * The kernel time in ms of one step, without the engine's own overhead. One that reads a prompt and decodes is dense
 * over all its tokens, as T is, and takes no less than its decodes alone.
 */
export function kernelMs(size: "4b" | "8b" | "32b", load: StepLoad): number {
  const { f, b, d, q, d0, d1, d2 } = H200[size];
  const decode = load.decodes === 0 ? 0 : d0 + d1 * load.decodes;
  if (load.prefillTokens === 0) return decode + d2 * load.decodeContext;
  const tokens = load.prefillTokens + load.decodes;
  const dense = Math.pow(Math.pow(f, q) + Math.pow(b * tokens, q), 1 / q);
  return Math.max(dense, decode) + d * load.prefillAttention + d2 * load.decodeContext;
}

/** The cost model of an H200 that serves a model of this size, or one that takes no time. */
export function costModel(size: "4b" | "8b" | "32b" | "instant", speedup = 1): CostModel {
  if (size === "instant") {
    return {
      kvTokens: 1_000_000,
      requestMs: 0,
      stepMs: () => 0,
      transferLatencyMs: 0,
      transferMsPerToken: 0,
    };
  }
  return {
    kvTokens: H200[size].kvTokens,
    requestMs: 2 / speedup,
    transferLatencyMs: LINK_LATENCY_MS / speedup,
    transferMsPerToken: H200[size].kvBytes / LINK_BYTES_PER_MS / speedup,
    stepMs: (load) =>
      (kernelMs(size, load) + STEP_OVERHEAD_MS + SEQUENCE_OVERHEAD_MS * load.sequences) / speedup,
  };
}
