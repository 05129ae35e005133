import { parentPort, workerData } from "node:worker_threads";
import { SystemClock } from "../../base/clock.ts";

// The thread that `loop_delay.ts` starts: every one to three milliseconds, so many times, it sends when that was due.

const clock = new SystemClock();
const cell = new Int32Array(new SharedArrayBuffer(4));
const count: number = workerData;
for (let index = 0; index < count; index++) {
  const waitMs = 1 + (index * 0.37) % 2;
  const dueMs = clock.now() + waitMs;
  Atomics.wait(cell, 0, 0, waitMs);
  parentPort?.postMessage(clock.unixEpochMs + dueMs);
}
