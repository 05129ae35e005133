import type { AnswerFeatures } from "../embedders/embedder.ts";
import type { Similarity, SimilarityMetric } from "../scorer.ts";

/** How far rounding takes a similarity out of its range. */
const ROUNDING = 1e-5;

/** What an embedder's comparison of two answers comes to; a value that is none, such as NaN, is unknown. */
export function resultOf(
  metric: SimilarityMetric,
  a: AnswerFeatures,
  b: AnswerFeatures,
  value: number | undefined,
): Similarity {
  const tokens: [number, number] = [a.tokens, b.tokens];
  const dimensions: [number, number] | undefined =
    metric === "cosine" || a.effectiveDimensions === undefined || b.effectiveDimensions === undefined
      ? undefined
      : [a.effectiveDimensions, b.effectiveDimensions];
  const common = { metric, tokens, ...(dimensions === undefined ? {} : { effectiveDimensions: dimensions }) };
  if (value === undefined) return { ...common, value, reason: "one of the answers has nothing to compare" };
  const least = metric === "cosine" ? -1 : 0;
  if (!(value >= least - ROUNDING && value <= 1 + ROUNDING)) {
    return { ...common, value: undefined, reason: `the embedder gave ${value}, which is no similarity` };
  }
  return { ...common, value: Math.min(1, Math.max(least, value)) };
}

/** The same comparison, or the other way round. */
export function oriented(result: Similarity, swapped: boolean): Similarity {
  if (!swapped) return result;
  const { tokens, effectiveDimensions: dimensions } = result;
  return {
    ...result,
    tokens: [tokens[1], tokens[0]],
    ...(dimensions === undefined ? {} : { effectiveDimensions: [dimensions[1], dimensions[0]] }),
  };
}
