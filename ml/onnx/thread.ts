import { Worker } from "node:worker_threads";

/** A thread that a model may block. */
export interface Thread<To> {
  /** `transfer`: memory that is handed over, not copied. */
  post(message: To, transfer?: readonly ArrayBuffer[]): void;
  /** Whether the process waits for it before it ends; at first it does not. */
  keepAlive(on: boolean): void;
  /** Ends it at once. */
  terminate(): void;
}

export interface ThreadEvents<From> {
  message(message: From): void;
  /** It has ended, and not because it was told to. Called once. */
  crash(reason: string): void;
}

/** Where a thread's program is: its file, and its place from the root of a bundled program (`bun build --compile`). */
export interface ThreadFile {
  readonly url: URL;
  readonly bundled: string;
}

/** Starts a program, which reads `data` as its `workerData`, in a thread. */
export function startThread<To, From>(
  file: ThreadFile,
  data: unknown,
  events: ThreadEvents<From>,
): Thread<To> {
  const bundled = /\/(\$bunfs|%7EBUN|~BUN)\//.test(import.meta.url);
  const worker = new Worker(bundled ? file.bundled : file.url, { workerData: data });
  let over = false;
  const crash = (reason: string) => {
    if (over) return;
    over = true;
    events.crash(reason);
  };
  worker.on("message", (message: From) => {
    if (!over) events.message(message);
  });
  worker.on("error", (error) => crash(error instanceof Error ? error.message : String(error)));
  worker.on("exit", (code) => crash(`it ended with code ${code}`));
  // Only now: listening makes Bun wait for it.
  worker.unref();
  return {
    post: (message, transfer = []) => worker.postMessage(message, [...transfer]),
    keepAlive: (on) => on ? worker.ref() : worker.unref(),
    terminate: () => {
      over = true;
      worker.terminate();
    },
  };
}
