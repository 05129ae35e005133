import type { Clock } from "./clock.ts";

/** Why a timer is cancelled; without a reason each abort makes an error of its own, with its stack. */
const CANCELLED = new Error("The timer was cancelled");

/**
 * A time limit that is set anew for every wait, such as every read of a stream. It keeps one timer and lets that run
 * out, instead of setting and cancelling one for every wait: when it is due, it looks whether a wait really is late.
 */
export class Watchdog {
  readonly #clock: Clock;
  readonly #onLate: () => void;
  #dueMs = Infinity;
  /** When the timer is due; Infinity while there is none. */
  #wakeMs = Infinity;
  #timer: AbortController | undefined;

  /** `onLate` is called when a wait has lasted too long. */
  constructor(clock: Clock, onLate: () => void) {
    this.#clock = clock;
    this.#onLate = onLate;
  }

  /** A wait begins, or goes on; it is late at `dueMs` (clock time, Infinity for never). */
  arm(dueMs: number): void {
    this.#dueMs = dueMs;
    if (dueMs < this.#wakeMs) this.#setTimer();
  }

  /** The wait is over. */
  disarm(): void {
    this.#dueMs = Infinity;
  }

  /** There will be no more waits: cancels the timer. */
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
