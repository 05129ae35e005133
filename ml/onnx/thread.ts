import { Worker } from "node:worker_threads";

/** A thread that may be blocked by a model, as its owner sees it. */
export interface Thread<To> {
  /** `transfer`: memory that is handed over, not copied. */
  post(message: To, transfer?: readonly ArrayBuffer[]): void;
  /** Sets whether the process stays alive for it; at first it does not. */
  keepAlive(on: boolean): void;
  /** Ends it at once. Bun aborts the whole process when that is inside a native add-on's call: ask it to end before. */
  terminate(): void;
}

/** Callbacks for what a thread does. */
export interface ThreadEvents<From> {
  message(message: From): void;
  /** Called once when it ends without having been told to. */
  crash(reason: string): void;
}

/** Program of a thread: its file, and its path from the root of a bundled program (`bun build --compile`). */
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
