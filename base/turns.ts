import type { Clock } from "./clock.ts";

/** Work that is cut into short turns of the event loop: each `yield` ends one. */
export type Turns<Result> = Generator<void, Result, void>;

/** Does the work turn by turn; between two of them everybody else has one. Rejects with the signal's reason. */
export async function turnByTurn<Result>(
  clock: Clock,
  turns: Turns<Result>,
  signal?: AbortSignal,
): Promise<Awaited<Result>> {
  while (true) {
    const step = turns.next();
    if (step.done === true) return await step.value;
    await clock.sleep(0, signal);
  }
}

/** Does the work at once. */
export function atOnce<Result>(turns: Turns<Result>): Result {
  while (true) {
    const step = turns.next();
    if (step.done === true) return step.value;
  }
}
