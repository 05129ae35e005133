import type { StopSignal } from "./stop_signal.ts";
import type { Clock } from "./clock.ts";

/** Work that is cut into short turns of the event loop: each `yield` ends one. */
export type Turns<Result> = Generator<LongStep | void, Result, void>;

/** A step that no turn is long enough for. */
export interface LongStep {
  /** Has it done by somebody else, such as a thread. */
  readonly elsewhere: () => Promise<void>;
  readonly here: () => void;
}

/** Does the work turn by turn; between two of them everybody else has one. Rejects with the signal's reason. */
export async function turnByTurn<Result>(
  clock: Clock,
  turns: Turns<Result>,
  signal?: StopSignal,
): Promise<Awaited<Result>> {
  let step = turns.next();
  while (step.done !== true) {
    const { value: long } = step;
    if (long === undefined) {
      await clock.sleep(0, signal);
      step = turns.next();
      continue;
    }
    try {
      await long.elsewhere();
      signal?.throwIfAborted();
    } catch (error) {
      step = turns.throw(error);
      continue;
    }
    step = turns.next();
  }
  return await step.value;
}

/** Does the work at once, long steps here. */
export function atOnce<Result>(turns: Turns<Result>): Result {
  let step = turns.next();
  while (step.done !== true) {
    try {
      step.value?.here();
    } catch (error) {
      step = turns.throw(error);
      continue;
    }
    step = turns.next();
  }
  return step.value;
}

/** A long step with a result. */
export function* longStep<Result>(
  step: { readonly elsewhere: () => Promise<Result>; readonly here: () => Result },
): Turns<Result> {
  const results: Result[] = [];
  yield {
    elsewhere: async () => void results.push(await step.elsewhere()),
    here: () => void results.push(step.here()),
  };
  return results[0]!;
}
