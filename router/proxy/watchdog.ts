import type { Clock } from "../../base/clock.ts";

/**
 * Limits how long one may wait for a worker, with one timer for a whole stream instead of one per chunk: a wait
 * only notes when it began, and the timer, when due, looks whether a wait is really over its limit.
 * Time in which nobody waits (a slow client) does not count.
 */
export class Watchdog {
  readonly #clock: Clock;
  readonly #onExpire: (limitMs: number) => void;
  #sinceMs: number | undefined;
  #limitMs = Infinity;
  #wakeMs = Infinity;
  #timer: AbortController | undefined;

  constructor(clock: Clock, onExpire: (limitMs: number) => void) {
    this.#clock = clock;
    this.#onExpire = onExpire;
  }

  /** A wait begins; it may last `limitMs`. */
  begin(limitMs: number): void {
    this.#sinceMs = this.#clock.now();
    this.#limitMs = limitMs;
    if (this.#timer === undefined || this.#sinceMs + limitMs < this.#wakeMs) this.#arm();
  }

  /** The wait is over. */
  end(): void {
    this.#sinceMs = undefined;
  }

  /** Cancels the timer: there will be no more waits. */
  stop(): void {
    this.#sinceMs = undefined;
    this.#timer?.abort();
    this.#timer = undefined;
  }

  #arm(): void {
    this.#timer?.abort();
    if (this.#sinceMs === undefined || this.#limitMs === Infinity) {
      this.#timer = undefined;
      return;
    }
    const timer = new AbortController();
    this.#timer = timer;
    this.#wakeMs = this.#sinceMs + this.#limitMs;
    this.#clock.sleep(this.#wakeMs - this.#clock.now(), timer.signal).then(() => this.#onDue(), () => {});
  }

  #onDue(): void {
    this.#timer = undefined;
    if (this.#sinceMs === undefined) return;
    // Due times are compared, not durations: those may differ by a rounding error for ever.
    if (this.#sinceMs + this.#limitMs > this.#wakeMs) return this.#arm();
    this.#sinceMs = undefined;
    this.#onExpire(this.#limitMs);
  }
}
