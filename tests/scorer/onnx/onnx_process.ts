import { SystemClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { WorkerScorer } from "../../../scorer/thread/worker_scorer.ts";
import { startScorerThread } from "../../../scorer/thread/worker_thread.ts";
import { modelFolder } from "./onnx_reference.ts";

// A program of its own: compares two answers in a Worker that it does not close, and ends.

const scorer = new WorkerScorer({
  clock: new SystemClock(),
  log: logger("test"),
  start: startScorerThread,
  maxQueued: 8,
  embedder: {
    files: { folder: modelFolder, path: `${modelFolder}/model.onnx` },
    model: "tiny",
    threads: 1,
    span: "all",
    maxTokens: 64,
    maxCachedTokens: 64,
  },
});
for (const id of ["a", "b"]) {
  const feed = scorer.open(id);
  feed.append("The answer is 42.");
  feed.end();
}

const { value, reason } = await scorer.similarity("a", "b", "fcs", 60_000);
// deno-lint-ignore no-console
console.log(JSON.stringify({ value, reason }));
