import type { OutgoingRequest } from "../../base/transport.ts";
import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../../ml/onnx/thread.ts";
import type { HttpEmbedderOptions } from "../embedders/http_embedder.ts";
import type { OnnxEmbedderOptions } from "../embedders/onnx_embedder.ts";
import type { ScorerFacts, Similarity, SimilarityMetric } from "../scorer.ts";

/** An embedding model at an endpoint. */
export interface EndpointOptions
  extends Pick<HttpEmbedderOptions, "url" | "model" | "apiKey" | "span" | "maxTokens"> {
  /** Calibration file that the cosine of pooled vectors is whitened by. */
  readonly whitening?: string | undefined;
}

/** Options of the thread. */
export interface ScorerThreadOptions {
  readonly embedder: Omit<OnnxEmbedderOptions, "clock"> | EndpointOptions;
  readonly maxQueued: number;
}

/** Changes of an answer since the last batch, in this order: it was opened, grew, ended. */
export interface AnswerUpdate {
  readonly key: number;
  readonly opened: boolean;
  readonly text: string;
  readonly ended: boolean;
}

/** A comparison of two answers, by their keys. */
export interface ComparisonRequest {
  readonly request: number;
  readonly a: number;
  readonly b: number;
  readonly metric: SimilarityMetric;
  readonly deadlineMs: number;
}

export type ToScorerThread =
  | {
    readonly kind: "batch";
    readonly answers: readonly AnswerUpdate[];
    readonly comparisons: readonly ComparisonRequest[];
    /** Keys of answers to drop. */
    readonly closed: readonly number[];
  }
  /** Outcome of a request that the thread asked for. */
  | {
    readonly kind: "answered";
    readonly request: number;
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Uint8Array;
  }
  | { readonly kind: "unanswered"; readonly request: number; readonly reason: string }
  | { readonly kind: "close" };

export type FromScorerThread =
  | { readonly kind: "ready"; readonly facts: ScorerFacts }
  /** The model cannot be used. */
  | { readonly kind: "failed"; readonly reason: string; readonly code: string; readonly status: number }
  /** The last batch is taken; the next one may come. */
  | { readonly kind: "taken" }
  /** A request to send for the thread, and one that it has given up. */
  | { readonly kind: "ask"; readonly request: number; readonly outgoing: OutgoingRequest }
  | { readonly kind: "leave"; readonly request: number }
  | { readonly kind: "compared"; readonly request: number; readonly result: Similarity }
  | { readonly kind: "closed" };

/** Starts a thread with an embedding model. */
export type StartScorerThread = (
  options: ScorerThreadOptions,
  events: ThreadEvents<FromScorerThread>,
) => Thread<ToScorerThread>;

const file: ThreadFile = {
  url: new URL("./worker.ts", import.meta.url),
  bundled: "./scorer/thread/worker.ts",
};

/** Starts `worker.ts`. The process does not wait for it. */
export const startScorerThread: StartScorerThread = (options, events) => startThread(file, options, events);
