import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../onnx/thread.ts";
import type { FromWorker, ToWorker, WorkerOptions } from "./worker_messages.ts";

/** Starts a thread with an embedding model. */
export type StartThread = (options: WorkerOptions, events: ThreadEvents<FromWorker>) => Thread<ToWorker>;

const file: ThreadFile = { url: new URL("./worker.ts", import.meta.url), bundled: "./scorer/worker.ts" };

/** Starts `worker.ts`. The process does not wait for it. */
export const startWorkerThread: StartThread = (options, events) => startThread(file, options, events);
