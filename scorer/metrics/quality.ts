import { meanConfidence } from "../policy/confidence.ts";

/** Parameters of Q. */
export interface QualitySettings {
  /** The similarity at which B is 1. */
  readonly tau: number;
  /** Weight of confidence. */
  readonly gamma: number;
  /** The algorithm as printed: each answer's similarity with itself (1) counts in P, and gamma is 0.5. */
  readonly literal: boolean;
}

/** The quantities of Faster-MoA's Algorithm 1, each in [0, 1]; undefined when it is not known. */
export interface Quality {
  /** RMS of the confidences. */
  readonly cBar: number | undefined;
  /** Mean similarity of all pairs, weighted with the product of the two confidences. */
  readonly p: number | undefined;
  /** 1 − |P − τ| / max(τ, 1 − τ). */
  readonly b: number | undefined;
  /** C̄^γ · B^(1−γ). */
  readonly q: number | undefined;
}

const unknown: Quality = { cBar: undefined, p: undefined, b: undefined, q: undefined };

/**
 * Q of the answers so far. `confidences`: in [0, 1], one for each of `count` answers; undefined: not known, all pairs
 * weigh the same and Q is B. `similarity(i, j)`, j < i, is asked for every pair; one that is unknown
 * or not finite makes P, B and Q unknown, and so do confidences of 0 that leave no pair any weight.
 */
export function qualityOf(
  count: number,
  confidences: readonly number[] | undefined,
  similarity: (i: number, j: number) => number | undefined,
  { tau, gamma, literal }: QualitySettings,
): Quality {
  if (count < 1) return unknown;
  const cBar = confidences === undefined ? undefined : meanConfidence(confidences);
  const p = meanSimilarity(count, confidences, similarity, literal);
  if (p === undefined || Number.isNaN(cBar)) {
    return { ...unknown, cBar: Number.isNaN(cBar) ? undefined : cBar };
  }
  const b = Math.max(0, 1 - Math.abs(p - tau) / Math.max(tau, 1 - tau));
  const weight = literal ? 0.5 : gamma;
  return { cBar, p, b, q: cBar === undefined ? b : cBar ** weight * b ** (1 - weight) };
}

function meanSimilarity(
  count: number,
  confidences: readonly number[] | undefined,
  similarity: (i: number, j: number) => number | undefined,
  withSelfPairs: boolean,
): number | undefined {
  // Divided by the largest one, so that products of tiny confidences do not underflow.
  const largest = confidences === undefined ? 1 : Math.max(...confidences);
  const weightOf = (i: number) => confidences === undefined ? 1 : confidences[i]! / largest;
  let sum = 0;
  let weights = 0;
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < i; j++) {
      const value = similarity(i, j);
      if (value === undefined || !Number.isFinite(value)) return undefined;
      const weight = weightOf(i) * weightOf(j);
      sum += weight * value;
      weights += weight;
    }
    if (withSelfPairs) {
      sum += weightOf(i) ** 2;
      weights += weightOf(i) ** 2;
    }
  }
  // Rounding gives means a hair above 1, and B below 0 has no root.
  return weights > 0 ? Math.min(1, Math.max(0, sum / weights)) : undefined;
}
