import type { JsonObject } from "../base/json.ts";

/**
 * How alike two answers are. `fcs`: the paper's token-level Frobenius cosine of correlation matrices. `fcs_u`: the
 * same without its dependence on length. `cosine`: of the pooled vectors. All three tell whether two answers are about
 * the same thing, none whether they agree.
 */
export type SimilarityMetric = "fcs" | "fcs_u" | "cosine";

/** Names an answer to the scorer; unique as long as its feed is open. */
export type AnswerId = string;

/** One comparison of two answers. */
export interface Similarity {
  readonly metric: SimilarityMetric;
  /** In [0, 1] (`cosine`: in [-1, 1]); undefined when it is not known, `reason` says why. */
  readonly value: number | undefined;
  readonly reason?: string;
  /** Tokens that were embedded, of either answer. */
  readonly tokens: readonly [number, number];
  /** Effective dimensions h²/u of either answer's features (`fcs`, `fcs_u`). */
  readonly effectiveDimensions?: readonly [number, number];
}

/** What the scorer works with; goes into every trace. */
export interface ScorerFacts {
  readonly embedder: "onnx" | "http" | "lexical";
  /** Hub id, folder or address; undefined for `lexical`. */
  readonly model: string | undefined;
  /** More that a reader of a trace should know, such as file, dtype, dimensions, threads, tokens per second. */
  readonly details: JsonObject;
}

/** Takes one answer while it is being decoded. Nothing here waits or throws: a scorer that is broken or late fails open. */
export interface AnswerFeed {
  append(text: string): void;
  /** The answer is complete: whoever waits for a similarity with it gets it when its tail is embedded. */
  end(): void;
  /** Its features are not needed any more. */
  close(): void;
}

/** Turns answers into token-level features, incrementally, off the main thread; fails open. */
export interface Scorer {
  /** Undefined until the model is loaded, or while it is down. */
  readonly facts: ScorerFacts | undefined;
  open(answer: AnswerId): AnswerFeed;
  /**
   * Of two answers that have ended, whose feeds are open. Never rejects: after `deadlineMs`, with a broken scorer or
   * a full queue the value is undefined.
   */
  similarity(a: AnswerId, b: AnswerId, metric: SimilarityMetric, deadlineMs: number): Promise<Similarity>;
  close(): Promise<void>;
}
