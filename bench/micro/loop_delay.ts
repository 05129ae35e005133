import type { Clock } from "../../base/clock.ts";
import { median } from "./measure.ts";
import { startThread } from "../../ml/onnx/thread.ts";

/** By how much a thread's turns are late, in ms. */
export interface LoopDelay {
  /** 1 ms timers. Deno's are late by about one more millisecond in an idle thread, too: it rounds them up. */
  readonly timers: Delays;
  /** From when another thread was to send to this thread's turn: both must get a core, and no timer is rounded. */
  readonly messages: Delays;
}

export interface Delays {
  readonly p50: number;
  readonly p99: number;
}

/** Timers and messages in a round. */
const COUNT = 400;

/**
 * Delays of this thread while it has nothing else to do, and while `work` goes on again and again; in turns, the middle
 * round of each, because other processes come and go.
 */
export async function loopDelayWhile(
  clock: Clock,
  rounds: number,
  work: () => Promise<unknown>,
): Promise<{ idle: LoopDelay; busy: LoopDelay }> {
  const [idle, busy]: [LoopDelay[], LoopDelay[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    idle.push(await measured(clock));
    let over = false;
    const working = (async () => {
      while (!over) await work();
    })();
    busy.push(await measured(clock));
    over = true;
    await working;
  }
  return { idle: middle(idle), busy: middle(busy) };
}

async function measured(clock: Clock): Promise<LoopDelay> {
  return { timers: await lateTimers(clock), messages: await lateMessages(clock) };
}

async function lateTimers(clock: Clock): Promise<Delays> {
  const delays: number[] = [];
  for (let timer = 0; timer < COUNT; timer++) {
    const dueMs = clock.now() + 1;
    await clock.sleep(1);
    delays.push(clock.now() - dueMs);
  }
  return percentiles(delays);
}

async function lateMessages(clock: Clock): Promise<Delays> {
  const delays: number[] = [];
  await new Promise<void>((resolve, reject) => {
    const url = new URL("./loop_delay_thread.ts", import.meta.url);
    const thread = startThread<never, number>({ url, bundled: "" }, COUNT, {
      message: (dueUnixMs) => {
        delays.push(clock.unixEpochMs + clock.now() - dueUnixMs);
        if (delays.length < COUNT) return;
        thread.terminate();
        resolve();
      },
      crash: (reason) => reject(new Error(reason)),
    });
    thread.keepAlive(true);
  });
  return percentiles(delays);
}

function percentiles(delays: readonly number[]): Delays {
  const sorted = delays.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? NaN;
  return { p50: at(0.5), p99: at(0.99) };
}

function middle(of: readonly LoopDelay[]): LoopDelay {
  const middleOf = (pick: (delay: LoopDelay) => Delays): Delays => ({
    p50: median(of.map((delay) => pick(delay).p50)),
    p99: median(of.map((delay) => pick(delay).p99)),
  });
  return { timers: middleOf(({ timers }) => timers), messages: middleOf(({ messages }) => messages) };
}
