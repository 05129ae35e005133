import type { Clock } from "../../base/clock.ts";

/**
 * A time limit that is set anew for every read of a stream. It keeps one timer and lets it run out, instead of
 * setting and cancelling one for every chunk.
 */
export class Watchdog {
  readonly #clock: Clock;
  readonly #onLate: (limitMs: number, what: string) => void;
  readonly #timer = new AbortController();
  #dueMs = Infinity;
  #limitMs = 0;
  #what = "";
  #timerDueMs = Infinity;
  #stopped = false;

  /** `onLate` is called once, with what was missing and the limit it missed. */
  constructor(clock: Clock, onLate: (limitMs: number, what: string) => void) {
    this.#clock = clock;
    this.#onLate = onLate;
  }

  /** From now on it is late at `dueMs` (clock time). */
  arm(dueMs: number, limitMs: number, what: string): void {
    this.#dueMs = dueMs;
    this.#limitMs = limitMs;
    this.#what = what;
    if (this.#dueMs < this.#timerDueMs) void this.#wait();
  }

  disarm(): void {
    this.#dueMs = Infinity;
  }

  /** Ends the watch; nothing is left running. */
  stop(): void {
    this.#stopped = true;
    this.#timer.abort();
  }

  async #wait(): Promise<void> {
    const mine = this.#timerDueMs = this.#dueMs;
    try {
      while (!this.#stopped && this.#timerDueMs === mine && this.#dueMs < Infinity) {
        const leftMs = this.#dueMs - this.#clock.now();
        if (leftMs <= 0) {
          this.stop();
          return this.#onLate(this.#limitMs, this.#what);
        }
        await this.#clock.sleep(leftMs, this.#timer.signal);
      }
    } catch {
      // Stopped.
    } finally {
      if (this.#timerDueMs === mine) this.#timerDueMs = Infinity;
    }
  }
}
