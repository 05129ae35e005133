import type { Clock } from "../../base/clock.ts";
import type { PlacementOutcome } from "../worker/placement.ts";

/** `closed`: all requests pass. `open`: none should. `half_open`: one probe at a time may. */
export type BreakerState = "closed" | "open" | "half_open";

const STATES: readonly BreakerState[] = ["closed", "open", "half_open"];
/** Places in a breaker's memory; that of the period has its state in the two lowest bits. */
const PERIOD = 0;
const FAILED = 1;
const SUCCEEDED = 2;
export const PROBING = 3;
/** Behind those: how often it went from each state to each, by `from * 3 + to`. */
const FIRST_CHANGE = 4;
/** Cells of a breaker. */
export const BREAKER_CELLS = FIRST_CHANGE + STATES.length ** 2;

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

/** Memory of a breaker that several threads share. */
export interface BreakerCells {
  /** `BREAKER_CELLS` of them: period and state in one, failures and successes in a row, 1 during a probe, changes. */
  readonly counts: Int32Array;
  /** One: unix time at which it opened, in ms. */
  readonly openedAt: Float64Array;
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
  readonly #counts: Int32Array;
  readonly #openedAt: Float64Array;
  /** Clocks of threads begin at different times: what they share is unix time. */
  readonly #originMs: number;

  /** `cells`: by default memory of its own. */
  constructor(
    { clock, cells, ...rules }: { clock: Clock; cells?: BreakerCells | undefined } & BreakerRules,
  ) {
    this.#clock = clock;
    this.#rules = rules;
    this.#counts = cells?.counts ?? new Int32Array(BREAKER_CELLS);
    this.#openedAt = cells?.openedAt ?? new Float64Array(1);
    this.#originMs = cells === undefined ? 0 : clock.unixEpochMs;
  }

  /** Goes by other rules from now on; its state stays. */
  reconfigure(rules: BreakerRules): void {
    this.#rules = rules;
  }

  get state(): BreakerState {
    const seen = this.#load(PERIOD);
    const state = stateOf(seen);
    if (state !== "open" || this.#nowMs - this.#openedAt[0]! < this.#rules.openMs) return state;
    this.#enter("half_open", seen);
    return stateOf(this.#load(PERIOD));
  }

  /** Time at which it will let a probe through, in clock ms; undefined unless it is open. */
  get opensAtMs(): number | undefined {
    return this.state === "open" ? this.#openedAt[0]! + this.#rules.openMs - this.#originMs : undefined;
  }

  /** Changes of state so far, by `from to`. */
  get transitions(): ReadonlyMap<`${BreakerState} ${BreakerState}`, number> {
    const all = STATES.flatMap((from, row) =>
      STATES.map((to, at) =>
        [`${from} ${to}` as const, this.#load(FIRST_CHANGE + STATES.length * row + at)] as const
      )
    );
    return new Map(all.filter(([, count]) => count > 0));
  }

  /** True when a request may be sent now. */
  get admits(): boolean {
    const state = this.state;
    return state === "closed" || (state === "half_open" && this.#load(PROBING) === 0);
  }

  /**
   * Counts a request as sent; in `half_open` it is the probe. Also legal when the breaker does not admit (a pool
   * whose breakers are all open tries anyway): its success then closes the breaker.
   */
  begin(): BreakerPermit {
    if (this.state === "half_open") Atomics.store(this.#counts, PROBING, 1);
    return { period: this.#load(PERIOD) };
  }

  /** Takes in how a request went. Call it once per permit. */
  end(permit: BreakerPermit, outcome: PlacementOutcome): void {
    const state = this.state;
    if (permit.period !== this.#load(PERIOD)) return;
    if (outcome === "ok") {
      Atomics.store(this.#counts, FAILED, 0);
      Atomics.store(this.#counts, PROBING, 0);
      if (state !== "closed" && Atomics.add(this.#counts, SUCCEEDED, 1) + 1 >= (this.#rules.successes ?? 1)) {
        this.#enter("closed", permit.period);
      }
    } else if (outcome === "failed") {
      const failed = Atomics.add(this.#counts, FAILED, 1) + 1;
      if (state === "half_open" || (state === "closed" && failed >= this.#rules.failures)) {
        this.#openedAt[0] = this.#nowMs;
        this.#enter("open", permit.period);
      }
    } else if (state === "half_open") Atomics.store(this.#counts, PROBING, 0);
  }

  /** Another process serves at this address now: what its predecessor did counts no more. */
  reset(): void {
    this.#enter("closed", this.#load(PERIOD));
  }

  get #nowMs(): number {
    return this.#originMs + this.#clock.now();
  }

  #load(cell: number): number {
    return Atomics.load(this.#counts, cell);
  }

  /** Begins another period, unless another thread has ended the one that was `seen`. */
  #enter(state: BreakerState, seen: number): void {
    const next = (seen >> 2) + 1 << 2 | STATES.indexOf(state);
    if (Atomics.compareExchange(this.#counts, PERIOD, seen, next) !== seen) return;
    const change = FIRST_CHANGE + STATES.length * (seen & 3) + STATES.indexOf(state);
    if ((seen & 3) !== (next & 3)) Atomics.add(this.#counts, change, 1);
    for (const cell of [FAILED, SUCCEEDED, PROBING]) Atomics.store(this.#counts, cell, 0);
  }
}

function stateOf(period: number): BreakerState {
  return STATES[period & 3] ?? "closed";
}
