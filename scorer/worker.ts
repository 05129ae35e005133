import { parentPort, workerData } from "node:worker_threads";
import { SystemClock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { yieldToOtherThreads } from "../onnx/priority.ts";
import { OnnxEmbedder } from "./embedders/onnx.ts";
import { InlineScorer } from "./inline_scorer.ts";
import type { AnswerFeed } from "./scorer.ts";
import type { FromWorker, ToWorker, WorkerOptions } from "./worker_messages.ts";

// The thread that `WorkerScorer` starts: it may be blocked for as long as a step of the model takes.

const port = parentPort;
if (port === null) throw new Error("This file is started by WorkerScorer, in a thread of its own");
const post = (message: FromWorker): void => port.postMessage(message);
const { embedder: embedderOptions, maxQueued }: WorkerOptions = workerData;
const clock = new SystemClock();
yieldToOtherThreads();

function serve(scorer: InlineScorer): void {
  const feeds = new Map<number, AnswerFeed>();
  const take = (message: ToWorker): void => {
    if (message.kind === "close") {
      const done = () => post({ kind: "closed" });
      return void scorer.close().then(done, done);
    }
    for (const { key, opened, text, ended } of message.answers) {
      if (opened) feeds.set(key, scorer.open(String(key)));
      const feed = feeds.get(key);
      feed?.append(text);
      if (ended) feed?.end();
    }
    for (const { request, a, b, metric, deadlineMs } of message.comparisons) {
      scorer.similarity(String(a), String(b), metric, deadlineMs)
        .then((result) => post({ kind: "compared", request, result }));
    }
    for (const key of message.closed) {
      feeds.get(key)?.close();
      feeds.delete(key);
    }
    post({ kind: "taken" });
  };
  port!.on("message", take);
}

try {
  const embedder = await OnnxEmbedder.open({ ...embedderOptions, clock });
  serve(new InlineScorer(embedder, { clock, maxQueued }));
  post({ kind: "ready", facts: embedder.facts });
} catch (error) {
  post({ kind: "failed", reason: messageOf(error) });
}
