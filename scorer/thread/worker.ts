import { parentPort, workerData } from "node:worker_threads";
import { SystemClock } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { loadOnnxRuntime } from "../../ml/onnx/runtime.ts";
import { yieldToOtherThreads } from "../../ml/onnx/thread_priority.ts";
import { HttpEmbedder } from "../embedders/http_embedder.ts";
import { OnnxEmbedder } from "../embedders/onnx_embedder.ts";
import { SimilarityGraphs } from "../onnx/similarity_graphs.ts";
import { Whitening } from "../similarity/whitening.ts";
import { InlineScorer } from "./inline_scorer.ts";
import { serveScorer, type ToScorer } from "./serve_scorer.ts";
import { ThreadTransport } from "./thread_transport.ts";
import type {
  EndpointOptions,
  FromScorerThread,
  ScorerThreadOptions,
  ToScorerThread,
} from "./worker_thread.ts";

// The thread that `WorkerScorer` starts: it may be blocked for as long as a step of the model takes.

const port = parentPort;
if (port === null) throw new Error("This file is started by WorkerScorer, in a thread of its own");
const post = (message: FromScorerThread): void => port.postMessage(message);
const { embedder: options, maxQueued }: ScorerThreadOptions = workerData;
const clock = new SystemClock();
const transport = new ThreadTransport(post);
const opened = Promise.withResolvers<(message: ToScorer) => void>();

yieldToOtherThreads();
port.on("message", (message: ToScorerThread) => {
  if (message.kind === "answered" || message.kind === "unanswered") return transport.take(message);
  opened.promise.then((take) => take(message));
});

try {
  const embedder = "files" in options
    ? await OnnxEmbedder.open({ ...options, clock })
    : await openEndpoint(options);
  opened.resolve(serveScorer(new InlineScorer(embedder, { clock, maxQueued }), post));
  post({ kind: "ready", facts: embedder.facts });
} catch (error) {
  const { code, status } = CanopyError.is(error) ? error : { code: "model_unusable", status: 500 };
  post({ kind: "failed", reason: messageOf(error), code, status });
}

async function openEndpoint({ whitening: file, ...options }: EndpointOptions): Promise<HttpEmbedder> {
  const whitening = file === undefined ? undefined : await Whitening.read(file);
  return await HttpEmbedder.open({
    ...options,
    clock,
    transport,
    signal: new AbortController().signal,
    // Where it cannot be loaded loops take its place.
    graphs: await loadOnnxRuntime().then((runtime) => SimilarityGraphs.open(runtime, 1), () => undefined),
    transform: whitening && ((pooled) => whitening.apply(pooled)),
  });
}
