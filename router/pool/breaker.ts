import type { Clock } from "../../base/clock.ts";
import type { PlacementOutcome } from "../worker/placement.ts";

/** `closed`: all requests pass. `open`: none should. `half_open`: one probe at a time may. */
export type BreakerState = "closed" | "open" | "half_open";

/** Leave to send one request; carries the breaker's period in which it was given. */
export interface BreakerPermit {
  readonly period: number;
}

/** Rules of a breaker. */
export interface BreakerRules {
  /** Failed requests in a row that open it. */
  readonly failures: number;
  /** Time for which it stays open, in ms. */
  readonly openMs: number;
  /** Probes in a row that have to succeed; 1 by default. */
  readonly successes?: number | undefined;
}

/**
 * Opens after `failures` failed requests in a row, lets one probe at a time through once `openMs` have passed, and
 * closes when `successes` of them in a row succeed. Rejections (4xx, 429, 503) and aborts say nothing about the worker and never count.
 * The outcome of a request counts only in the period (between two changes of state) in which it was started, so
 * that stragglers from before a change cannot undo it.
 */
export class Breaker {
  readonly #clock: Clock;
  #rules: BreakerRules;
  #state: BreakerState = "closed";
  #period = 0;
  #failed = 0;
  #succeeded = 0;
  #openedAtMs = 0;
  #probing = false;
  /** Changes of state so far, by `from to`. */
  readonly transitions = new Map<`${BreakerState} ${BreakerState}`, number>();

  constructor({ clock, ...rules }: { clock: Clock } & BreakerRules) {
    this.#clock = clock;
    this.#rules = rules;
  }

  /** Goes by other rules from now on; its state stays. */
  reconfigure(rules: BreakerRules): void {
    this.#rules = rules;
  }

  get state(): BreakerState {
    if (this.#state === "open" && this.#clock.now() - this.#openedAtMs >= this.#rules.openMs) {
      this.#enter("half_open");
    }
    return this.#state;
  }

  /** Time at which it will let a probe through, in clock ms; undefined unless it is open. */
  get opensAtMs(): number | undefined {
    return this.state === "open" ? this.#openedAtMs + this.#rules.openMs : undefined;
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
      if (state !== "closed" && ++this.#succeeded >= (this.#rules.successes ?? 1)) this.#enter("closed");
    } else if (outcome === "failed") {
      this.#failed++;
      if (state === "half_open" || (state === "closed" && this.#failed >= this.#rules.failures)) {
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
