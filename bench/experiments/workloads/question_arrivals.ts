import type { Clock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { BenchWorkload } from "./workload_file.ts";

/** So many questions at the same time, or questions at random, so many a second on the average. */
export type QuestionArrivals = number | { readonly perSecond: number };

/** The arrivals that a workload describes, of so many questions. */
export function arrivalsOf({ arrivals }: BenchWorkload, questions: number): QuestionArrivals {
  if (arrivals.process === "poisson") return { perSecond: arrivals.per_second ?? 1 };
  return arrivals.process === "all_at_once" ? questions : 1;
}

/** `one question at a time`, `12 questions at a time`, `0.5 questions a second`. */
export function arrivalsText(arrivals: QuestionArrivals): string {
  if (typeof arrivals !== "number") return `${arrivals.perSecond} questions a second`;
  return arrivals === 1 ? "one question at a time" : `${arrivals} questions at a time`;
}

/** Asks all questions by their number as they arrive. Rejects when `signal` aborts between two of them. */
export async function askAll(
  { count, arrivals, seed, clock, signal }: {
    readonly count: number;
    readonly arrivals: QuestionArrivals;
    readonly seed: string;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
  ask: (index: number) => Promise<void>,
): Promise<void> {
  if (typeof arrivals === "number") {
    let next = 0;
    const askOn = async () => {
      for (let index = next++; index < count; index = next++) {
        signal.throwIfAborted();
        await ask(index);
      }
    };
    await Promise.all(Array.from({ length: Math.min(arrivals, count) }, askOn));
    return;
  }
  const random = new Random(`${seed}/arrivals`);
  const { perSecond } = arrivals;
  let atMs = 0;
  await Promise.all(Array.from({ length: count }, async (_, index) => {
    atMs += -1000 / perSecond * Math.log(1 - random.next());
    await clock.sleep(atMs, signal);
    await ask(index);
  }));
}
