import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../../ml/onnx/thread.ts";
import type { FromScorerThread, ScorerThreadOptions, ToScorerThread } from "./worker_messages.ts";

/** Starts a thread with an embedding model. */
export type StartThread = (
  options: ScorerThreadOptions,
  events: ThreadEvents<FromScorerThread>,
) => Thread<ToScorerThread>;

const file: ThreadFile = {
  url: new URL("./worker.ts", import.meta.url),
  bundled: "./scorer/thread/worker.ts",
};

/** Starts `worker.ts`. The process does not wait for it. */
export const startWorkerThread: StartThread = (options, events) => startThread(file, options, events);
