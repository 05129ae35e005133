import type { Clock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { Semaphore } from "../../../base/semaphore.ts";
import type { BenchWorkload } from "./workload_file.ts";

/** So many questions at the same time, or questions at random, so many a second on the average. */
export type QuestionArrivals = number | {
  readonly perSecond: number;
  /** Questions at the same time: one that arrives while so many are under way waits for its turn; no limit by default. */
  readonly atMost?: number | undefined;
};

/** The arrivals that a workload describes, of so many questions. */
export function arrivalsOf({ arrivals }: BenchWorkload, questions: number): QuestionArrivals {
  if (arrivals.process === "poisson") return { perSecond: arrivals.per_second ?? 1 };
  return arrivals.process === "all_at_once" ? questions : 1;
}

/** `one question at a time`, `12 questions at a time`, `0.5 questions a second`, also `, at most 12 at a time`. */
export function arrivalsText(arrivals: QuestionArrivals): string {
  if (typeof arrivals !== "number") {
    const { perSecond, atMost } = arrivals;
    return `${perSecond} questions a second${atMost === undefined ? "" : `, at most ${atMost} at a time`}`;
  }
  return arrivals === 1 ? "one question at a time" : `${arrivals} questions at a time`;
}

/**
 * Asks all questions by their number as they arrive; `waitedMs` is how long a question that had arrived was held back by
 * `atMost`. Rejects when `signal` aborts between two of them.
 */
export async function askAll(
  { count, arrivals, seed, clock, signal }: {
    readonly count: number;
    readonly arrivals: QuestionArrivals;
    readonly seed: string;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
  ask: (index: number, waitedMs: number) => Promise<void>,
): Promise<void> {
  if (typeof arrivals === "number") {
    let next = 0;
    const askOn = async () => {
      for (let index = next++; index < count; index = next++) {
        signal.throwIfAborted();
        await ask(index, 0);
      }
    };
    await Promise.all(Array.from({ length: Math.min(arrivals, count) }, askOn));
    return;
  }
  const random = new Random(`${seed}/arrivals`);
  const { perSecond, atMost } = arrivals;
  const places = atMost === undefined ? undefined : placesFor(atMost);
  let atMs = 0;
  await Promise.all(Array.from({ length: count }, async (_, index) => {
    atMs += random.exponential(1000 / perSecond);
    await clock.sleep(atMs, signal);
    if (places === undefined) return await ask(index, 0);
    const [arrivedMs, isFull] = [clock.now(), places.inUse === places.permits];
    const release = await places.acquire(signal);
    try {
      await ask(index, isFull ? clock.now() - arrivedMs : 0);
    } finally {
      release();
    }
  }));
}

function placesFor(permits: number): Semaphore {
  const full = () => new Error("unreachable: the queue has no end");
  return new Semaphore({ permits, maxWaiting: Infinity, full });
}
