import type { AnswerEmbedding, AnswerFeatures } from "../embedders/embedder.ts";
import type { AnswerId, Similarity, SimilarityMetric } from "../scorer.ts";

/** An answer that is embedded and compared with others. */
export interface ComparedAnswer {
  readonly id: AnswerId;
  /** When it was opened, among all answers. */
  readonly order: number;
  /** What has come and is not embedded yet. */
  text: string;
  state: "growing" | "ended" | "done" | "failed";
  /** Why it failed. */
  reason: string;
  /** A call of its embedding is running. */
  inStep: boolean;
  embedding: AnswerEmbedding | undefined;
  features: AnswerFeatures | undefined;
  /** The pairs with other answers that were asked for, by their keys. */
  readonly pairs: Map<string, AnswerPair>;
}

/** One comparison, made at most once. */
export interface AnswerPair {
  readonly key: string;
  readonly metric: SimilarityMetric;
  /** Opened before `b`, or the same. */
  readonly a: ComparedAnswer;
  readonly b: ComparedAnswer;
  readonly waiters: Set<(result: Similarity) => void>;
  result: Similarity | undefined;
}

/** The pair of `a`, which was opened first or is the same, and `b`; made when it is asked for first. */
export function pairOf(a: ComparedAnswer, b: ComparedAnswer, metric: SimilarityMetric): AnswerPair {
  const key = `${a.order} ${b.order} ${metric}`;
  let pair = a.pairs.get(key);
  if (pair === undefined) {
    pair = { key, metric, a, b, waiters: new Set(), result: undefined };
    a.pairs.set(key, pair);
    b.pairs.set(key, pair);
  }
  return pair;
}

/** Tells all who wait. */
export function settle(pair: AnswerPair, result: Similarity): void {
  pair.result = result;
  for (const waiter of [...pair.waiters]) waiter(result);
}

/** The result of a pair that cannot be compared. */
export function unknown({ metric, a, b }: AnswerPair, reason: string): Similarity {
  return { metric, value: undefined, reason, tokens: [a.features?.tokens ?? 0, b.features?.tokens ?? 0] };
}
