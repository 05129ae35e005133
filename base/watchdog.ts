import type { Clock } from "./clock.ts";

/** Reason of a cancelled timer; without one each abort would make an error of its own, with its stack. */
const CANCELLED = new Error("The timer was cancelled");

/**
 * A time limit that is set anew for every wait, such as every read of a stream. One timer serves all waits: it runs out,
 * and is set again if the wait of that moment is not late yet. Setting and cancelling one for each wait would cost more.
 */
export class Watchdog {
  readonly #clock: Clock;
  readonly #onLate: () => void;
  #dueMs = Infinity;
  /** Time at which the timer is due; Infinity while there is none. */
  #wakeMs = Infinity;
  #timer: AbortController | undefined;

  /** `onLate` is called when a wait has lasted too long. */
  constructor(clock: Clock, onLate: () => void) {
    this.#clock = clock;
    this.#onLate = onLate;
  }

  /** Begins or prolongs a wait; it is late at `dueMs` (clock time, Infinity for never). */
  arm(dueMs: number): void {
    this.#dueMs = dueMs;
    if (dueMs < this.#wakeMs) this.#setTimer();
  }

  /** Ends the wait; the timer stays for the next one. */
  disarm(): void {
    this.#dueMs = Infinity;
  }

  /** Cancels the timer: no more waits follow. */
  stop(): void {
    this.#dueMs = Infinity;
    this.#setTimer();
  }

  #setTimer(): void {
    this.#timer?.abort(CANCELLED);
    this.#timer = undefined;
    this.#wakeMs = this.#dueMs;
    if (this.#wakeMs === Infinity) return;
    const timer = new AbortController();
    this.#timer = timer;
    this.#clock.sleep(Math.max(0, this.#wakeMs - this.#clock.now()), timer.signal)
      .then(() => this.#onTimer(), () => {});
  }

  #onTimer(): void {
    // Due times are compared, not durations: those may differ by a rounding error for ever.
    if (this.#dueMs > this.#wakeMs) return this.#setTimer();
    this.stop();
    this.#onLate();
  }
}
