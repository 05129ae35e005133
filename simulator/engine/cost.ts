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

/** Sizes of models whose costs are known. */
export type CostSize = "4b" | "8b" | "32b";

/** Parameters of the cost of an engine that serves one model; times in ms, lengths in tokens. */
export interface CostParameters {
  readonly f: number;
  readonly b: number;
  readonly d: number;
  readonly q: number;
  readonly d0: number;
  readonly d1: number;
  readonly d2: number;
  readonly kvTokens: number;
  /** Bytes of KV of one token. */
  readonly kvBytes: number;
  /** Time in the HTTP front end. */
  readonly requestMs: number;
  /** Engine overhead of a step. */
  readonly stepMs: number;
  /** Engine overhead of a step for each sequence of its batch. */
  readonly sequenceMs: number;
}

/** Overheads of an engine that were not fitted; in ms. */
export const OVERHEADS = { requestMs: 2, stepMs: 0.7, sequenceMs: 0.05 };

/**
 * Fits to measured H200 bf16 kernels (vLLM 0.24, one GPU), Qwen3 shapes: mean error 2-4 %, at most 17 %.
 * Prefill of n tokens on top of c: T(n, c) = (f^q + (b n)^q)^(1/q) + d n (c + n/2).
 * Decode of B sequences with S tokens of context together: D(B, S) = d0 + d1 B + d2 S.
 * KV capacity: 141 GB x 0.9 less weights and activations, at 144 or 256 KiB per token, bf16.
 */
export const H200_COSTS: Readonly<Record<CostSize, CostParameters>> = {
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
    ...OVERHEADS,
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
    ...OVERHEADS,
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
    ...OVERHEADS,
  },
};

/** KV transfer between two GPUs: 64 GB/s (an estimate for one NIC or half an NVLink) and 1 ms for hand-shake and polls. */
const LINK_BYTES_PER_MS = 64e6;
const LINK_LATENCY_MS = 1;

/**
 * The kernel time in ms of one step, without the engine's own overhead. One that reads a prompt and decodes is dense
 * over all its tokens, as T is, and takes no less than its decodes alone.
 */
export function kernelMs(cost: CostSize | CostParameters, load: StepLoad): number {
  const { f, b, d, q, d0, d1, d2 } = parametersOf(cost);
  const decode = load.decodes === 0 ? 0 : d0 + d1 * load.decodes;
  if (load.prefillTokens === 0) return decode + d2 * load.decodeContext;
  const tokens = load.prefillTokens + load.decodes;
  const dense = Math.pow(Math.pow(f, q) + Math.pow(b * tokens, q), 1 / q);
  return Math.max(dense, decode) + d * load.prefillAttention + d2 * load.decodeContext;
}

function parametersOf(cost: CostSize | CostParameters): CostParameters {
  return typeof cost === "string" ? H200_COSTS[cost] : cost;
}

/** The cost model of an H200 that serves a model of this size, of an engine with these parameters, or one that takes no time. */
export function costModel(cost: CostSize | "instant" | CostParameters, speedup = 1): CostModel {
  if (cost === "instant") {
    return {
      kvTokens: 1_000_000,
      requestMs: 0,
      stepMs: () => 0,
      transferLatencyMs: 0,
      transferMsPerToken: 0,
    };
  }
  const { kvTokens, kvBytes, requestMs, stepMs, sequenceMs } = parametersOf(cost);
  return {
    kvTokens,
    requestMs: requestMs / speedup,
    transferLatencyMs: LINK_LATENCY_MS / speedup,
    transferMsPerToken: kvBytes / LINK_BYTES_PER_MS / speedup,
    stepMs: (load) => (kernelMs(cost, load) + stepMs + sequenceMs * load.sequences) / speedup,
  };
}
