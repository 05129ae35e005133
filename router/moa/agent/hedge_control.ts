import type { HedgeSettings } from "../../../cfgs/schema/config.ts";

/** Times that are remembered. */
const REMEMBERED = 512;
/** Times from which on a quantile says something. */
const LEAST = 20;
/** Second attempts that may be saved up for a bad moment. */
const MOST_SAVED = 4;

/**
 * When a model's agents are started a second time, and how often: learned from the times that agents of this process
 * (of several threads, of this one) took. One for all runs.
 */
export class HedgeControl {
  readonly #settings: () => HedgeSettings | undefined;
  /** From an agent's place to its end, in ms; the oldest are overwritten. */
  readonly #times: number[] = [];
  #next = 0;
  /** Sorted times; undefined where a new one has come. */
  #sorted: readonly number[] | undefined;
  /** Second attempts that agents have paid for. */
  #saved = 0;

  /** `settings`: those in effect now; undefined: nobody is started twice. */
  constructor(settings: () => HedgeSettings | undefined) {
    this.#settings = settings;
  }

  /** True where agents may be started a second time. */
  get on(): boolean {
    return this.#settings() !== undefined;
  }

  /** Time from an agent's place after which it is late; undefined while too few times are known. */
  get afterMs(): number | undefined {
    const settings = this.#settings();
    if (settings === undefined) return undefined;
    const share = Number(settings.after.slice(1)) / 100;
    const known = this.#times.length;
    // Fewer say nothing of the rarest: of twenty one is beyond p95.
    if (known < Math.max(LEAST, Math.round(1 / (1 - share)))) return undefined;
    this.#sorted ??= [...this.#times].sort((a, b) => a - b);
    return this.#sorted[Math.ceil(share * known - 1e-9) - 1];
  }

  /** An agent has begun: of so many, `max_share` may be started twice. */
  began(): void {
    this.#saved = Math.min(MOST_SAVED, this.#saved + (this.#settings()?.max_share ?? 0));
  }

  /** An agent has ended by itself. */
  ended(ms: number): void {
    this.#times[this.#next] = ms;
    this.#next = (this.#next + 1) % REMEMBERED;
    this.#sorted = undefined;
  }

  /** Takes one second attempt; false where none is left. */
  take(): boolean {
    // So many sums of shares are a little less than 1.
    if (this.#saved < 1 - 1e-9) return false;
    this.#saved -= 1;
    return true;
  }
}
