import type { Clock } from "../../../base/clock.ts";

/** Tokens of a stream that are looked at together: about as long as a warm and the text that the next one waits for. */
const WINDOW_TOKENS = 16;
/** Weight that each pair of windows takes from those before it. */
const DECAY = 0.999;
/** Pairs of windows without which nothing is said, and standard errors that a toll must be away from none. */
const EVIDENCE = { pairs: 12, errors: 4 };

/** Some tokens of one stream: how long they took, and how many tokens warms computed on its worker meanwhile. */
interface StreamWindow {
  readonly tokens: number;
  readonly ms: number;
  readonly warmed: number;
}

/**
 * What a warmed token costs a stream of the same worker, in ms: the slope of the streams' pace over the warms' tokens,
 * from the differences of neighbouring windows of each stream, so that a pace that changes slowly with load does not
 * count.
 */
export class WarmToll {
  #pairs = 0;
  #sums = { xx: 0, xy: 0, yy: 0 };
  #all = { ms: 0, warmed: 0 };

  /** Two windows of one stream that follow each other. */
  note(before: StreamWindow, now: StreamWindow): void {
    const { ms, warmed } = this.#all;
    this.#all = { ms: ms * DECAY + now.ms, warmed: warmed * DECAY + now.warmed };
    // What warms cost is not forgotten while there are none.
    if (before.warmed + now.warmed === 0) return;
    const x = now.warmed / now.tokens - before.warmed / before.tokens;
    const y = now.ms / now.tokens - before.ms / before.tokens;
    const { xx, xy, yy } = this.#sums;
    this.#pairs = this.#pairs * DECAY + 1;
    this.#sums = { xx: xx * DECAY + x * x, xy: xy * DECAY + x * y, yy: yy * DECAY + y * y };
  }

  /** Ms that a warmed token costs a stream; 0 as long as that could be chance. */
  get msPerToken(): number {
    const { xx, xy, yy } = this.#sums;
    if (this.#pairs < EVIDENCE.pairs || xx === 0) return 0;
    const ms = xy / xx;
    const error = Math.sqrt(Math.max(0, yy - ms * xy) / this.#pairs / xx);
    return ms > EVIDENCE.errors * error ? ms : 0;
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
    if (this.#before !== undefined) this.#toll.note(this.#before, now);
    this.#before = now;
    this.#next(ms, warmed);
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
