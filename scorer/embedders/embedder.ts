import type { ScorerFacts, SimilarityMetric } from "../scorer.ts";

/** An embedding model: runs inside the scorer's Worker, or inline where it needs none (`lexical`). */
export interface Embedder {
  readonly facts: ScorerFacts;
  /** Answers that it embeds at the same time: one where it computes itself. */
  readonly concurrency: number;
  open(): AnswerEmbedding;
  close(): Promise<void>;
}

/** One answer on its way through the model. Calls do not overlap. */
export interface AnswerEmbedding {
  /** Embeds as much of the text so far as cannot change any more; in steps short enough that others get in between. */
  append(text: string): Promise<void>;
  /**
   * Embeds the rest, or one step of it: undefined when it is to be called again, so that others get in between.
   * Throws when the model fails.
   */
  finish(): Promise<AnswerFeatures | undefined>;
  /** Drops its data, and ends a running call where the model allows it; harmless twice. */
  close(): void;
}

/** Token-level features of one whole answer. */
export interface AnswerFeatures {
  /** Rows: tokens that were embedded. */
  readonly tokens: number;
  /** Columns, h. */
  readonly dimensions: number;
  /** h²/u, or undefined without rows. */
  readonly effectiveDimensions: number | undefined;
  /** With features of the same embedder; undefined when one of the two has no rows. */
  compare(other: AnswerFeatures, metric: SimilarityMetric): Promise<number | undefined>;
}
