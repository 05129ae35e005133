import { CanopyError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import type { DrawnToken, SamplingParameters, SequenceRequest } from "./generator.ts";

/** Below this a temperature means the likeliest token (vLLM's `_SAMPLING_EPS`). */
const GREEDY_TEMPERATURE = 1e-5;

/** Sampling that leaves the model's probabilities as they are (OpenAI's and vLLM's defaults). */
export const NEUTRAL_SAMPLING: Omit<SamplingParameters, "seed"> = {
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: new Map(),
};

/** The part of a request that drawing a token depends on. */
export type DrawRequest = Pick<SequenceRequest, "sampling" | "minTokens" | "stopIds" | "logprobs">;

/** The tokens of a sequence as penalties count them. */
export class TokenHistory {
  readonly promptIds: ReadonlySet<number>;
  /** Occurrences of each id in the answer. */
  readonly counts: Map<number, number> = new Map();
  /** Tokens of the answer. */
  length = 0;

  constructor(promptIds: Iterable<number>) {
    this.promptIds = new Set(promptIds);
  }

  /** Notes a token of the answer. */
  push(id: number): void {
    this.counts.set(id, (this.counts.get(id) ?? 0) + 1);
    this.length++;
  }
}

/**
 * Draws the next token from `logits` (one number per id), which are the same again when it returns. In the order of
 * vLLM's sampler: log-probabilities of the raw logits; `min_tokens` bars the stop ids; `logit_bias`; repetition,
 * frequency and presence penalty; the likeliest token, or temperature, `min_p`, `top_k`, `top_p` and a draw.
 * The draw depends on the seed and the token's position alone. Throws 500 `model_failed` for logits of no use.
 */
export function drawToken(logits: Float32Array, request: DrawRequest, history: TokenHistory): DrawnToken {
  const { sampling, logprobs } = request;
  const scores = logprobs === undefined ? undefined : new LogProbabilities(logits);
  const restore = adjust(logits, request, history);
  let id: number;
  try {
    id = sampling.temperature < GREEDY_TEMPERATURE
      ? likeliest(logits)
      : draw(logits, sampling, new Random(`${sampling.seed}/${history.length}`).next());
  } finally {
    restore();
  }
  return { id, logprob: scores?.of(id), top: scores?.top(logprobs ?? 0) ?? [] };
}

/** Log-softmax of logits. */
class LogProbabilities {
  readonly #logits: Float32Array;
  readonly #logSum: number;

  constructor(logits: Float32Array) {
    this.#logits = logits;
    const most = logits[likeliest(logits)]!;
    let sum = 0;
    for (let id = 0; id < logits.length; id++) sum += Math.exp(logits[id]! - most);
    this.#logSum = most + Math.log(sum);
  }

  of(id: number): number {
    return this.#logits[id]! - this.#logSum;
  }

  /** The `count` likeliest, best first; of equals the smaller id. */
  top(count: number): (readonly [number, number])[] {
    const logits = this.#logits;
    const best: number[] = [];
    if (count === 0) return [];
    for (let id = 0; id < logits.length; id++) {
      const value = logits[id]!;
      if (best.length === count && value <= logits[best[count - 1]!]!) continue;
      let at = best.length;
      while (at > 0 && logits[best[at - 1]!]! < value) at--;
      best.splice(at, 0, id);
      if (best.length > count) best.pop();
    }
    return best.map((id) => [id, this.of(id)] as const);
  }
}

/** Changes the few logits that bars, biases and penalties touch; returns what takes it back. */
function adjust(logits: Float32Array, request: DrawRequest, history: TokenHistory): () => void {
  const { minTokens, stopIds, sampling } = request;
  const before: [id: number, logit: number][] = [];
  const set = (id: number, value: number) => {
    if (id < 0 || id >= logits.length) return;
    before.push([id, logits[id]!]);
    logits[id] = value;
  };
  if (history.length < minTokens) { for (const id of stopIds) set(id, -Infinity); }
  for (const [id, bias] of sampling.logitBias) set(id, logits[id]! + bias);
  const { repetitionPenalty, frequencyPenalty, presencePenalty } = sampling;
  if (repetitionPenalty !== 1) {
    const repeat = (id: number) => {
      const logit = logits[id]!;
      set(id, logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty);
    };
    for (const id of history.promptIds) repeat(id);
    for (const id of history.counts.keys()) if (!history.promptIds.has(id)) repeat(id);
  }
  if (frequencyPenalty !== 0 || presencePenalty !== 0) {
    for (const [id, count] of history.counts) {
      set(id, logits[id]! - frequencyPenalty * count - presencePenalty);
    }
  }
  return () => {
    for (let i = before.length - 1; i >= 0; i--) logits[before[i]![0]] = before[i]![1];
  };
}

function likeliest(logits: Float32Array): number {
  let best = 0;
  for (let id = 1; id < logits.length; id++) if (logits[id]! > logits[best]!) best = id;
  const most = logits[best];
  if (most === undefined || !Number.isFinite(most)) throw unusable(most);
  return best;
}

/** Weights of the last draw; reused, for it is as long as the vocabulary. */
let scratch = new Float64Array(0);

/** A token by its probability, `uniform` in [0, 1) being the chance. */
function draw(logits: Float32Array, sampling: SamplingParameters, uniform: number): number {
  const most = logits[likeliest(logits)]!;
  const { temperature, minP, topP } = sampling;
  const topK = sampling.topK > 0 && sampling.topK < logits.length ? sampling.topK : Infinity;
  if (scratch.length < logits.length) scratch = new Float64Array(logits.length);
  const weights = scratch;
  let total = 0;
  for (let id = 0; id < logits.length; id++) {
    // The likeliest weighs 1.
    const weight = Math.exp((logits[id]! - most) / temperature);
    weights[id] = weight >= minP ? weight : 0;
    total += weights[id]!;
  }
  if (!Number.isFinite(total)) throw unusable(total);
  if (topK === Infinity && topP >= 1) return pick(weights, undefined, logits.length, uniform * total);
  const ids = candidates(weights, logits.length, topK, topP * total);
  ids.sort((a, b) => weights[b]! - weights[a]! || a - b);
  let kept = ids.length;
  if (topK < kept) {
    // Equals of the last one stay, as vLLM has it.
    const least = weights[ids[topK - 1]!]!;
    kept = topK;
    while (kept < ids.length && weights[ids[kept]!] === least) kept++;
    total = ids.slice(0, kept).reduce((sum, id) => sum + weights[id]!, 0);
  }
  let mass = 0;
  let nucleus = 0;
  while (nucleus < kept && (topP >= 1 || nucleus === 0 || mass < topP * total)) {
    mass += weights[ids[nucleus++]!]!;
  }
  return pick(weights, ids, nucleus, uniform * mass);
}

/** Weights below which candidates are looked for in turn: few tokens have to be sorted where few matter. */
const FLOORS = [Math.exp(-6), Math.exp(-14), Number.MIN_VALUE];

/** All ids above a floor low enough that the cuts fall within them. */
function candidates(weights: Float64Array, size: number, count: number, mass: number): number[] {
  let ids: number[] = [];
  for (const floor of FLOORS) {
    ids = [];
    let sum = 0;
    for (let id = 0; id < size; id++) {
      if (weights[id]! < floor) continue;
      ids.push(id);
      sum += weights[id]!;
    }
    if (count === Infinity ? sum >= mass : ids.length >= count) break;
  }
  return ids;
}

/** The token at which the running sum of weights passes `target`. */
function pick(
  weights: Float64Array,
  ids: readonly number[] | undefined,
  count: number,
  target: number,
): number {
  let sum = 0;
  let last = 0;
  for (let i = 0; i < count; i++) {
    const id = ids === undefined ? i : ids[i]!;
    const weight = weights[id]!;
    if (weight === 0) continue;
    sum += weight;
    last = id;
    if (sum > target) return id;
  }
  return last;
}

function unusable(value: number | undefined): CanopyError {
  return new CanopyError(
    `Cannot draw a token: the model's logits are of no use (their largest is ${value})`,
    {
      code: "model_failed",
      status: 500,
    },
  );
}
