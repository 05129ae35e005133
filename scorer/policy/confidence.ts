import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";

/** Choice of the token probabilities that make an answer's confidence. */
export type ConfidenceSettings = Pick<EarlyExitConfig, "confidence" | "confidence_tokens">;

/**
 * Confidence of one answer in [0, 1]: the geometric mean of its tokens' probabilities, exp(mean log p) (Faster-MoA,
 * Algorithm 1, line 2); of all of them, of the last ones, or of the worst window (the last two after DeepConf, which
 * takes the means of the top-k tokens where we have the chosen ones). A token of probability 0 makes it 0. Undefined
 * when there are no log-probabilities or one of them is not a number.
 */
export function confidenceOf(
  logprobs: readonly number[] | undefined,
  settings: ConfidenceSettings,
): number | undefined {
  const mean = logprobMean(logprobs, settings);
  return mean === undefined ? undefined : Math.exp(mean.meanLogprob);
}

/** Mean log-probability, at most 0, over the tokens that count for the confidence, and how many they are. */
export interface LogprobMean {
  readonly tokens: number;
  readonly meanLogprob: number;
}

/** The mean whose exponential is `confidenceOf`; undefined where that is. */
export function logprobMean(
  logprobs: readonly number[] | undefined,
  { confidence, confidence_tokens: tokens }: ConfidenceSettings,
): LogprobMean | undefined {
  if (logprobs === undefined || logprobs.length === 0) return undefined;
  if (!logprobs.every((logprob) => logprob < Infinity)) return undefined;
  if (confidence === "geometric") return { tokens: logprobs.length, meanLogprob: meanOf(logprobs) };
  return {
    tokens: Math.min(tokens, logprobs.length),
    meanLogprob: confidence === "tail" ? meanOf(logprobs.slice(-tokens)) : lowestWindowMean(logprobs, tokens),
  };
}

/** RMS of confidences (Faster-MoA, Algorithm 1, line 3); NaN of none. */
export function meanConfidence(confidences: readonly number[]): number {
  return Math.sqrt(confidences.reduce((sum, c) => sum + c * c, 0) / confidences.length);
}

function meanOf(logprobs: readonly number[]): number {
  return logprobs.reduce((sum, logprob) => sum + belowZero(logprob), 0) / logprobs.length;
}

/** Lowest mean over windows of `size` tokens; over all of them when there are fewer. */
function lowestWindowMean(logprobs: readonly number[], size: number): number {
  if (logprobs.length <= size) return meanOf(logprobs);
  if (logprobs.includes(-Infinity)) return -Infinity;
  let sum = 0;
  let lowest = Infinity;
  for (const [index, logprob] of logprobs.entries()) {
    sum += belowZero(logprob);
    if (index >= size) sum -= belowZero(logprobs[index - size]!);
    if (index >= size - 1) lowest = Math.min(lowest, sum);
  }
  return lowest / size;
}

/** Engines round: a logarithm a hair above 0 is a probability of 1. */
function belowZero(logprob: number): number {
  return Math.min(0, logprob);
}
