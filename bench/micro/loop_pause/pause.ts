import { readFileSync } from "node:fs";
import process from "node:process";
import type { Clock } from "../../../base/clock.ts";

/** The longest pause of the event loop, in ms. */
export interface Pause {
  /** By the clock: other processes count where they take the core. */
  readonly wallMs: number;
  /** By the CPU time of this thread, which other processes and threads do not change; undefined but on Linux. */
  readonly cpuMs: number | undefined;
}

/** Measures the longest time between two turns of the event loop while some work goes on. */
export async function longestPause(clock: Clock, work: () => Promise<unknown>): Promise<Pause> {
  let over = false;
  let wallMs = 0;
  let cpuMs = 0;
  const watching = (async () => {
    let last = clock.now();
    let lastCpu = threadCpuMs();
    while (!over) {
      await clock.sleep(1);
      const [now, cpu] = [clock.now(), threadCpuMs()];
      wallMs = Math.max(wallMs, now - last);
      // No thread has a core for longer than time goes by: the kernel of a virtual machine may say so.
      cpuMs = Math.max(cpuMs, Math.min((cpu ?? 0) - (lastCpu ?? 0), now - last));
      [last, lastCpu] = [now, cpu];
    }
  })();
  try {
    await work();
  } finally {
    over = true;
    await watching;
  }
  return { wallMs, cpuMs: threadCpuMs() === undefined ? undefined : cpuMs };
}

const STILL = new Int32Array(new SharedArrayBuffer(4));
/** Long enough for the kernel to take the thread from its core. */
const OFF_CORE_MS = 0.02;

/**
 * CPU time of the main thread, whose number is the process's. The kernel brings the figure up to date when it takes the
 * thread from its core, and else at its ticks alone, which are 4 ms apart: so the thread is made to wait a moment.
 */
function threadCpuMs(): number | undefined {
  try {
    Atomics.wait(STILL, 0, 0, OFF_CORE_MS);
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  } catch {
    return undefined;
  }
}
