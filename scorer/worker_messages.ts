import type { OnnxEmbedderOptions } from "./embedders/onnx.ts";
import type { ScorerFacts, Similarity, SimilarityMetric } from "./scorer.ts";

/** What the Worker is started with. */
export interface WorkerOptions {
  readonly embedder: Omit<OnnxEmbedderOptions, "clock">;
  readonly maxQueued: number;
}

/** News of an answer since the last batch, in this order: it was opened, grew, ended. */
export interface AnswerNews {
  readonly key: number;
  readonly opened: boolean;
  readonly text: string;
  readonly ended: boolean;
}

/** A comparison that somebody waits for. */
export interface ComparisonRequest {
  readonly request: number;
  readonly a: number;
  readonly b: number;
  readonly metric: SimilarityMetric;
  readonly deadlineMs: number;
}

export type ToWorker =
  | {
    readonly kind: "batch";
    readonly answers: readonly AnswerNews[];
    readonly comparisons: readonly ComparisonRequest[];
    /** Keys of answers that are not needed any more. */
    readonly closed: readonly number[];
  }
  | { readonly kind: "close" };

export type FromWorker =
  | { readonly kind: "ready"; readonly facts: ScorerFacts }
  /** The model cannot be used. */
  | { readonly kind: "failed"; readonly reason: string }
  /** The last batch is taken; there may be another one. */
  | { readonly kind: "taken" }
  | { readonly kind: "compared"; readonly request: number; readonly result: Similarity }
  | { readonly kind: "closed" };
