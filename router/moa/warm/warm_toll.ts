import type { Clock } from "../../../base/clock.ts";

/** Tokens of a stream that are looked at together: fewer show a warm better, more are surer to have all of it. */
const WINDOW_TOKENS = 8;
/** Weight that each pair of windows takes from those before it. */
const DECAY = 0.999;
/** Standard deviations that the pairs which say so must be away from half of them. */
const EVIDENCE = 4;

/** Some tokens of one stream: how long they took, and how many tokens warms computed on its worker meanwhile. */
interface StreamWindow {
  readonly tokens: number;
  readonly ms: number;
  readonly warmed: number;
}

/**
 * What a warmed token costs a stream of the same worker, in ms: the slope of a stream's pace over the warms' tokens, from
 * the differences of neighbouring windows, so that a pace that changes slowly with load does not count. Whether it is
 * there at all is told by the pairs in which the window with more of a warm is the slower one: whatever the noise, that
 * is half of them by chance.
 */
export class WarmToll {
  /** Of each worker one stream is looked at: those of one server keep step, and would count as so many witnesses. */
  readonly #probes = new Map<string, TolledStream>();
  #sums = { xx: 0, xy: 0 };
  #pairs = { all: 0, slowerMore: 0 };
  #all = { ms: 0, warmed: 0 };

  /** True for the one stream of its worker that is looked at. */
  looksAt(stream: TolledStream, worker: string): boolean {
    if (!this.#probes.has(worker)) this.#probes.set(worker, stream);
    return this.#probes.get(worker) === stream;
  }

  /** A stream of a worker has ended: the next one is looked at. */
  leave(stream: TolledStream, worker: string): void {
    if (this.#probes.get(worker) === stream) this.#probes.delete(worker);
  }

  /** Two windows of one stream that follow each other. */
  note(before: StreamWindow, now: StreamWindow): void {
    const { ms, warmed } = this.#all;
    this.#all = { ms: ms * DECAY + now.ms, warmed: warmed * DECAY + now.warmed };
    const x = now.warmed / now.tokens - before.warmed / before.tokens;
    const y = now.ms / now.tokens - before.ms / before.tokens;
    if (x === 0 || y === 0) return;
    const { xx, xy } = this.#sums;
    this.#sums = { xx: xx * DECAY + x * x, xy: xy * DECAY + x * y };
    const { all, slowerMore } = this.#pairs;
    this.#pairs = { all: all * DECAY + 1, slowerMore: slowerMore * DECAY + (x * y > 0 ? 1 : 0) };
  }

  /** Ms that a warmed token costs a stream; 0 as long as that could be chance. */
  get msPerToken(): number {
    const { all, slowerMore } = this.#pairs;
    if (all === 0 || 2 * slowerMore - all < EVIDENCE * Math.sqrt(all)) return 0;
    return Math.max(0, this.#sums.xy / this.#sums.xx);
  }

  /** Share of the streams' time that went to warms. */
  get share(): number {
    const { ms, warmed } = this.#all;
    return ms === 0 ? 0 : this.msPerToken * warmed / ms;
  }
}

/** One stream as the toll of warms sees it. */
export class TolledStream {
  readonly #clock: Clock;
  readonly #toll: WarmToll;
  /** Tokens that warms have computed on a worker so far. */
  readonly #warmedOn: (worker: string) => number;
  #worker: string | undefined;
  /** At its first token there. */
  #warmedAtFirst = 0;
  #begin = { ms: 0, warmed: 0 };
  #tokens = 0;
  #before: StreamWindow | undefined;
  #last = { ms: 0, warmed: 0 };

  constructor(clock: Clock, toll: WarmToll, warmedOn: (worker: string) => number) {
    this.#clock = clock;
    this.#toll = toll;
    this.#warmedOn = warmedOn;
  }

  /** So many more tokens have come from a worker. */
  wrote(tokens: number, worker: string | undefined): void {
    if (worker === undefined) return;
    const ms = this.#clock.now();
    const warmed = this.#warmedOn(worker);
    this.#last = { ms, warmed };
    if (worker !== this.#worker) {
      this.end();
      this.#worker = worker;
      this.#warmedAtFirst = warmed;
      this.#before = undefined;
      this.#next(ms, warmed);
      return;
    }
    this.#tokens += tokens;
    if (this.#tokens < WINDOW_TOKENS) return;
    const { ms: beginMs, warmed: warmedBefore } = this.#begin;
    const now = { tokens: this.#tokens, ms: ms - beginMs, warmed: warmed - warmedBefore };
    const before = this.#before;
    this.#before = this.#toll.looksAt(this, worker) ? now : undefined;
    if (before !== undefined && this.#before !== undefined) this.#toll.note(before, now);
    this.#next(ms, warmed);
  }

  /** No more will come. */
  end(): void {
    if (this.#worker !== undefined) this.#toll.leave(this, this.#worker);
  }

  /** The worker of its last token. */
  get worker(): string | undefined {
    return this.#worker;
  }

  /** When its last token came. */
  get lastMs(): number {
    return this.#last.ms;
  }

  /** Tokens that warms computed on its worker from its first token there to its last one. */
  get warmedMeanwhile(): number {
    return this.#last.warmed - this.#warmedAtFirst;
  }

  #next(ms: number, warmed: number): void {
    this.#begin = { ms, warmed };
    this.#tokens = 0;
  }
}
