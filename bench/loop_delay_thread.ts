import { parentPort, workerData } from "node:worker_threads";
import { SystemClock } from "../base/clock.ts";

// The thread that `loop_delay.ts` starts: sends the time, so many times, every one to three milliseconds.

const clock = new SystemClock();
const cell = new Int32Array(new SharedArrayBuffer(4));
const count: number = workerData;
for (let index = 0; index < count; index++) {
  Atomics.wait(cell, 0, 0, 1 + (index * 0.37) % 2);
  parentPort?.postMessage(clock.unixEpochMs + clock.now());
}
