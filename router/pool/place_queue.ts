import type { Clock } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { Engine } from "../engines/engine.ts";
import type { Placement, PlacementHint, PlacementOutcome } from "../worker/placement.ts";

/** How often a full model is asked again: others than this queue may have given places back. */
const POLL_MS = 100;

interface Waiter {
  readonly rank: number;
  readonly hint: PlacementHint;
  readonly resolve: (placement: Placement) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Waits for a place at a model whose workers are all full. The call with the lowest rank comes first (the oldest
 * run, which is nearest to its end), and among equals the one that has waited longest.
 */
export class PlaceQueue {
  readonly #engine: Pick<Engine, "place">;
  readonly #clock: Clock;
  #waiters: Waiter[] = [];
  #poll: AbortController | undefined;

  constructor(engine: Pick<Engine, "place">, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
  }

  get waiting(): number {
    return this.#waiters.length;
  }

  /** A place, at once if there is one. Throws `no_worker` (503) when no worker is usable, or the signal's reason. */
  place(hint: PlacementHint, rank: number, signal: AbortSignal): Promise<Placement> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const onAbort = () => {
        this.#remove(waiter);
        reject(signal.reason);
      };
      const waiter: Waiter = {
        rank,
        hint,
        resolve: (placement) => {
          signal.removeEventListener("abort", onAbort);
          resolve(placement);
        },
        reject: (error) => {
          signal.removeEventListener("abort", onAbort);
          reject(error);
        },
      };
      signal.addEventListener("abort", onAbort, { once: true });
      const after = this.#waiters.findIndex((other) => other.rank > rank);
      this.#waiters.splice(after < 0 ? this.#waiters.length : after, 0, waiter);
      this.#serve();
    });
  }

  /** Gives a place back; the next in line has it. */
  release(placement: Placement, outcome: PlacementOutcome): void {
    placement.release(outcome);
    if (this.#waiters.length > 0) this.#serve();
  }

  /** Gives out places, in order, until a call in line finds none. */
  #serve(): void {
    for (const waiter of [...this.#waiters]) {
      try {
        const placement = this.#engine.place(waiter.hint);
        this.#remove(waiter);
        waiter.resolve(placement);
      } catch (error) {
        if (isFull(error)) {
          this.#startPoll();
          // One that avoids a worker may find none while the others still can.
          if (waiter.hint.exclude === undefined) return;
          continue;
        }
        this.#remove(waiter);
        waiter.reject(error);
      }
    }
  }

  #remove(waiter: Waiter): void {
    this.#waiters = this.#waiters.filter((other) => other !== waiter);
    if (this.#waiters.length > 0) return;
    this.#poll?.abort();
    this.#poll = undefined;
  }

  #startPoll(): void {
    if (this.#poll !== undefined) return;
    const poll = new AbortController();
    this.#poll = poll;
    this.#clock.sleep(POLL_MS, poll.signal).then(() => {
      this.#poll = undefined;
      this.#serve();
    }, () => {});
  }
}

/** True when the workers are healthy but have no room: `no_worker` with a time after which to ask again. */
function isFull(error: unknown): boolean {
  return CanopyError.is(error) && error.code === "no_worker" && error.retryAfterSeconds !== undefined;
}
