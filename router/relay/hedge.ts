import type { StopSignal } from "../../base/stop_signal.ts";
import type { Clock } from "../../base/clock.ts";

/** Reason of the end of an attempt that another one was faster than. */
const OUTRUN = new Error("Another attempt was faster");

/** Two attempts at the same thing. */
export interface Hedge<T> {
  readonly clock: Clock;
  /** Time after which the second one is begun beside the first, in ms. */
  readonly afterMs: number;
  /** Ends both. */
  readonly signal: StopSignal;
  readonly first: (signal: StopSignal) => Promise<T>;
  /** Undefined when there can be no second one. */
  readonly second: (signal: StopSignal) => Promise<T> | undefined;
  readonly isGood: (result: T) => boolean;
  /** Called with a result that is not given. */
  readonly discard: (result: T) => void;
}

/**
 * The result of the first attempt, or of a second one that is begun when the first takes long: the first good one of
 * the two, else the last. The other attempt's signal aborts. Rejects when the signal aborts, as the attempts do then.
 */
export async function hedged<T>(hedge: Hedge<T>): Promise<T> {
  const { clock, afterMs, signal, first, second, isGood, discard } = hedge;
  const ends = [new AbortController(), new AbortController()] as const;
  const onAbort = () => ends.forEach((end) => end.abort(signal.reason));
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const timer = new AbortController();
  try {
    const one = first(ends[0].signal);
    const late = clock.sleep(afterMs, timer.signal).then(() => true, () => false);
    const isLate = await Promise.race([late, one.then(() => false, () => false)]);
    const two = isLate ? second(ends[1].signal) : undefined;
    if (two === undefined) return await one;
    const winner = await Promise.race([one.then(() => 0, () => 0), two.then(() => 1, () => 1)] as const);
    const [ahead, behind] = winner === 0 ? [one, two] : [two, one];
    const result = await ahead;
    if (!isGood(result)) {
      discard(result);
      return await behind;
    }
    ends[winner === 0 ? 1 : 0].abort(OUTRUN);
    behind.then(discard, () => {});
    return result;
  } finally {
    timer.abort(OUTRUN);
    signal.removeEventListener("abort", onAbort);
  }
}
