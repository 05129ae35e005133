import { Worker } from "node:worker_threads";
import type { FromWorker, ToWorker, WorkerOptions } from "./worker_messages.ts";

/** A thread with an embedding model. */
export interface WorkerThread {
  post(message: ToWorker): void;
  /** Ends it at once. */
  terminate(): void;
}

export interface WorkerThreadEvents {
  message(message: FromWorker): void;
  /** It has ended, and not because it was told to. Called once. */
  crash(reason: string): void;
}

/** Starts a thread. */
export type StartThread = (options: WorkerOptions, events: WorkerThreadEvents) => WorkerThread;

/** A bundled program (`bun build --compile`) keeps the Worker's file at this place, from its root. */
const bundledWorker = "./scorer/worker.ts";

/** Starts `worker.ts` in a thread that does not keep the process alive. */
export const startWorkerThread: StartThread = (options, events) => {
  const bundled = /\/(\$bunfs|%7EBUN|~BUN)\//.test(import.meta.url);
  const worker = new Worker(bundled ? bundledWorker : new URL("./worker.ts", import.meta.url), {
    workerData: options,
  });
  let over = false;
  const crash = (reason: string) => {
    if (over) return;
    over = true;
    events.crash(reason);
  };
  worker.on("message", (message: FromWorker) => {
    if (!over) events.message(message);
  });
  worker.on("error", (error) => crash(error instanceof Error ? error.message : String(error)));
  worker.on("exit", (code) => crash(`it ended with code ${code}`));
  // Only now: listening makes Bun wait for it.
  worker.unref();
  return {
    post: (message) => worker.postMessage(message),
    terminate: () => {
      over = true;
      worker.terminate();
    },
  };
};
