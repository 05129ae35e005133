import type { Clock } from "../base/clock.ts";
import { CanopyError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Transport } from "../base/transport.ts";
import type { ScorerConfig } from "../cfgs/schema/scorer.ts";
import type { Environment } from "../ml/hub/environment.ts";
import type { Embedder } from "./embedders/embedder.ts";
import { LexicalEmbedder } from "./embedders/lexical_embedder.ts";
import { findOnnxFiles } from "./embedders/onnx_files.ts";
import type { Scorer } from "./scorer.ts";
import { InlineScorer } from "./thread/inline_scorer.ts";
import { WorkerScorer } from "./thread/worker_scorer.ts";
import { type StartScorerThread, startScorerThread } from "./thread/worker_thread.ts";

/** Means of a scorer. */
export interface CreateScorerOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Names the Hub's cache. */
  readonly env: Environment;
  readonly transport: Transport;
  /** Ends the wait for an endpoint. */
  readonly signal: AbortSignal;
  /** Starts the thread of a model; by default one of its own. */
  readonly start?: StartScorerThread | undefined;
}

/**
 * The scorer of a configuration. Models and endpoints have a thread of their own, the comparison of words runs in this
 * one. Throws 500 `weights_unavailable` when a model that must be there is not, 502 `embeddings_unavailable` when an
 * endpoint gives no embeddings.
 */
export async function createScorer(config: ScorerConfig, options: CreateScorerOptions): Promise<Scorer> {
  const { clock, log, env } = options;
  const { embedder, model, span, max_tokens: maxTokens, max_queued: maxQueued, whitening } = config;
  const inline = (made: Embedder) => new InlineScorer(made, { clock, maxQueued });
  const lexical = () => new LexicalEmbedder({ maxTokens });
  if (embedder === "http") return await endpointScorer(config, options);
  if (embedder === "lexical") return inline(lexical());
  const files = await findOnnxFiles(config, env);
  if (files !== undefined) {
    const { threads, max_cached_tokens: maxCachedTokens } = config;
    return new WorkerScorer({
      clock,
      log,
      start: options.start ?? startScorerThread,
      maxQueued,
      embedder: { files, model, threads, span, maxTokens, maxCachedTokens, whitening },
    });
  }
  const missing = `the weights of ${model} are not on this machine: run "canopy models pull ${model}"`;
  if (embedder === "onnx") {
    throw new CanopyError(`Cannot compare answers: ${missing}`, { code: "weights_unavailable", status: 500 });
  }
  log.warning("Answers are compared by their words: {missing}", { missing });
  return inline(withDetail(lexical(), "chosen_because", missing));
}

async function endpointScorer(config: ScorerConfig, options: CreateScorerOptions): Promise<Scorer> {
  const { url, model, span, max_tokens: maxTokens, max_queued: maxQueued, api_key: apiKey, whitening } =
    config;
  if (url === undefined) {
    throw new CanopyError("Cannot compare answers: scorer.url is missing, the address of the endpoint", {
      code: "invalid_config",
      status: 400,
      param: "scorer.url",
    });
  }
  const { clock, log, transport, signal } = options;
  signal.throwIfAborted();
  // Megabytes of features for each answer, and products of matrices: not in the router's thread.
  const scorer = new WorkerScorer({
    clock,
    log,
    transport,
    start: options.start ?? startScorerThread,
    maxQueued,
    embedder: { url, model, apiKey, span, maxTokens, whitening },
  });
  const onAbort = () => void scorer.close();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await scorer.ready();
    return scorer;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** The embedder with one more detail in its facts. */
function withDetail(embedder: Embedder, name: string, value: string): Embedder {
  const { facts } = embedder;
  return {
    facts: { ...facts, details: { ...facts.details, [name]: value } },
    concurrency: embedder.concurrency,
    open: () => embedder.open(),
    close: () => embedder.close(),
  };
}
