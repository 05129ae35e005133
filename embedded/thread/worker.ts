import { basename } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { KeyValuePool } from "../cache/key_values.ts";
import { checkNumbers } from "../../ml/onnx/check_numbers.ts";
import { Decoder } from "../model/decoder.ts";
import { weightBytes } from "../../ml/onnx/weight_bytes.ts";
import { longestBatched } from "../scheduler/batch.ts";
import { Scheduler } from "../scheduler/scheduler.ts";
import { SequenceMemory } from "../scheduler/sequence_memory.ts";
import type { DecoderOptions, FromDecoder, ToDecoder } from "./worker_thread.ts";
import { loadOnnxRuntime } from "../../ml/onnx/runtime.ts";
import { yieldToOtherThreads } from "../../ml/onnx/thread_priority.ts";

// The thread that `WorkerGenerator` starts: it may be blocked for as long as a step of the model takes.

const port = parentPort;
if (port === null) throw new Error("This file is started by WorkerGenerator, in a thread of its own");
const post = (message: FromDecoder): void => port.postMessage(message);
const options: DecoderOptions = workerData;

/**
 * Prompt tokens per step. Fewer while answers go on, since each of their tokens waits for one such step; more cost
 * memory, for attention and for a row of logits each.
 */
const CHUNK_TOKENS = { alone: 256, besides: 64 };

/** The same where activations of 8 bits have one scale per step: the more tokens share it, the worse it fits each. */
const SCALED_CHUNK_TOKENS = { alone: 64, besides: 64 };

try {
  if (options.background !== false) yieldToOtherThreads();
  const runtime = await loadOnnxRuntime();
  const decoder = await Decoder.open(runtime, options.path, options.threads);
  const check = options.check && await checkNumbers({
    ...options.check,
    path: options.path,
    model: decoder,
    open: (path) => Decoder.open(runtime, path, options.threads),
  });
  const pool = new KeyValuePool(
    decoder.export.cache,
    decoder.growth,
    Math.floor(options.cacheBytes / decoder.bytesPerToken),
  );
  const maxContextTokens = Math.min(options.maxContextTokens, pool.maxSequenceTokens);
  if (maxContextTokens < 1) {
    throw new CanopyError(
      `Cannot generate with ${options.model}: ${options.cacheBytes} bytes hold ${pool.maxTokens} tokens of its cache`,
      { code: "cache_too_small", status: 500 },
    );
  }
  const maxBatchedTokens = longestBatched(decoder, await weightBytes(options.path));
  const scheduler = new Scheduler({
    decoder,
    memory: new SequenceMemory({ decoder, pool, maxBatchedTokens }),
    maxContextTokens,
    maxRunning: options.maxRunning,
    chunkTokens: decoder.scaledPerCall ? SCALED_CHUNK_TOKENS : CHUNK_TOKENS,
    news: (key, events) => post({ kind: "news", key, events, counts: scheduler.counts() }),
  });
  port.on("message", (message: ToDecoder) => {
    if (message.kind === "generate") scheduler.add(message.key, message.request);
    else if (message.kind === "abort") scheduler.abort(message.key);
    else if (message.kind === "yield") scheduler.yieldTo(message.to);
    else scheduler.close();
  });
  const facts = {
    model: options.model,
    file: basename(options.path),
    vocabSize: decoder.vocabSize,
    maxContextTokens,
    threads: options.threads,
    fallbacks: decoder.fallbacks,
    arithmetic: decoder.arithmetic,
    check,
  };
  post({ kind: "ready", facts, counts: scheduler.counts() });
  await scheduler.run();
  await decoder.close();
  post({ kind: "closed" });
} catch (error) {
  const code = CanopyError.is(error) ? error.code : "model_unusable";
  post({ kind: "failed", reason: messageOf(error), code });
}
