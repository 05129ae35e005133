import type { JsonObject } from "../base/json.ts";

/**
 * Measures of how alike two answers are. `fcs`: the paper's token-level Frobenius cosine of correlation matrices.
 * `fcs_u`: the same without its dependence on length. `cosine`: of the pooled vectors. All three tell whether two
 * answers are about the same thing, none whether they agree.
 */
export type SimilarityMetric = "fcs" | "fcs_u" | "cosine";

/** Name of an answer; unique as long as its feed is open. */
export type AnswerId = string;

/** Result of a comparison of two answers. */
export interface Similarity {
  readonly metric: SimilarityMetric;
  /** In [0, 1] (`cosine`: in [-1, 1]); undefined when it is not known, `reason` says why. */
  readonly value: number | undefined;
  readonly reason?: string | undefined;
  /** Embedded tokens of either answer. */
  readonly tokens: readonly [number, number];
  /** Effective dimensions h²/u of either answer's features (`fcs`, `fcs_u`). */
  readonly effectiveDimensions?: readonly [number, number] | undefined;
}

/** Embedder and model of a scorer; part of every trace. */
export interface ScorerFacts {
  readonly embedder: "onnx" | "http" | "lexical";
  /** Hub id, folder or address; undefined for `lexical`. */
  readonly model: string | undefined;
  /** More for readers of a trace, such as file, type of the weights, dimensions, threads, tokens per second. */
  readonly details: JsonObject;
}

/** The way of one answer into the scorer while it is decoded. No call waits or throws: a scorer that is broken or late fails open. */
export interface AnswerFeed {
  append(text: string): void;
  /** Completes the answer; its similarities are known when its tail is embedded. */
  end(): void;
  /** Drops its features. */
  close(): void;
}

/** Turns answers into token-level features, incrementally, off the main thread; fails open. */
export interface Scorer {
  /** Undefined until the model is loaded, or while it is down. */
  readonly facts: ScorerFacts | undefined;
  open(answer: AnswerId): AnswerFeed;
  /**
   * Compares two answers that have ended, and whose feeds are open. Never rejects: after `deadlineMs`, with a broken
   * scorer or a full queue the value is undefined.
   */
  similarity(a: AnswerId, b: AnswerId, metric: SimilarityMetric, deadlineMs: number): Promise<Similarity>;
  close(): Promise<void>;
}
