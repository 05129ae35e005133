import type { Clock } from "../../base/clock.ts";
import type { PlacementOutcome } from "../worker/placement.ts";

/** `closed`: all requests pass. `open`: none should. `half_open`: one probe at a time may. */
export type BreakerState = "closed" | "open" | "half_open";

/** Leave to send one request; carries the breaker's period in which it was given. */
export interface BreakerPermit {
  readonly period: number;
}

/**
 * Opens after `failures` failed requests in a row, lets one probe at a time through once `openMs` have passed, and
 * closes when `successes` of them in a row succeed. Rejections (4xx, 429, 503) and aborts say nothing about the worker and never count.
 * The outcome of a request counts only in the period (between two changes of state) in which it was started, so
 * that stragglers from before a change cannot undo it.
 */
export class Breaker {
  readonly #clock: Clock;
  readonly #failures: number;
  readonly #openMs: number;
  readonly #successes: number;
  #state: BreakerState = "closed";
  #period = 0;
  #failed = 0;
  #succeeded = 0;
  #openedAtMs = 0;
  #probing = false;
  /** Changes of state so far, by `from to`. */
  readonly transitions = new Map<`${BreakerState} ${BreakerState}`, number>();

  /** `successes`: probes in a row that have to succeed; 1 by default. */
  constructor(options: { clock: Clock; failures: number; openMs: number; successes?: number | undefined }) {
    this.#clock = options.clock;
    this.#failures = options.failures;
    this.#openMs = options.openMs;
    this.#successes = options.successes ?? 1;
  }

  get state(): BreakerState {
    if (this.#state === "open" && this.#clock.now() - this.#openedAtMs >= this.#openMs) {
      this.#enter("half_open");
    }
    return this.#state;
  }

  /** Time at which it will let a probe through, in clock ms; undefined unless it is open. */
  get opensAtMs(): number | undefined {
    return this.state === "open" ? this.#openedAtMs + this.#openMs : undefined;
  }

  /** True when a request may be sent now. */
  get admits(): boolean {
    const state = this.state;
    return state === "closed" || (state === "half_open" && !this.#probing);
  }

  /**
   * Counts a request as sent; in `half_open` it is the probe. Also legal when the breaker does not admit (a pool
   * whose breakers are all open tries anyway): its success then closes the breaker.
   */
  begin(): BreakerPermit {
    if (this.state === "half_open") this.#probing = true;
    return { period: this.#period };
  }

  /** Takes in how a request went. Call it once per permit. */
  end(permit: BreakerPermit, outcome: PlacementOutcome): void {
    const state = this.state;
    if (permit.period !== this.#period) return;
    if (outcome === "ok") {
      this.#failed = 0;
      this.#probing = false;
      if (state !== "closed" && ++this.#succeeded >= this.#successes) this.#enter("closed");
    } else if (outcome === "failed") {
      this.#failed++;
      if (state === "half_open" || (state === "closed" && this.#failed >= this.#failures)) {
        this.#openedAtMs = this.#clock.now();
        this.#enter("open");
      }
    } else if (state === "half_open") this.#probing = false;
  }

  /** Another process serves at this address now: what its predecessor did counts no more. */
  reset(): void {
    this.#enter("closed");
  }

  #enter(state: BreakerState): void {
    const change = `${this.#state} ${state}` as const;
    if (state !== this.#state) this.transitions.set(change, (this.transitions.get(change) ?? 0) + 1);
    this.#state = state;
    this.#period++;
    this.#failed = 0;
    this.#succeeded = 0;
    this.#probing = false;
  }
}
