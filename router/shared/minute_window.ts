/** The seconds that a minute touches: the one that has begun, and the 60 before it. */
const SLOTS = 61;
/** A cell holds a second of unix time, and below it as many bits of what has happened in it. */
const COUNT_BITS = 30n;
const MAX_COUNT = 2 ** 30 - 1;

/** What has happened within one second of unix time. */
export interface SecondCount {
  readonly second: number;
  readonly count: number;
}

/** Counts of the last minute, to be looked at. */
export interface MinuteCounts {
  /** The sum over the minute before `nowMs` of unix time. */
  count(nowMs: number): number;
  /** Time in ms until fewer than `limit` are counted, if no more come. */
  waitMs(limit: number, nowMs: number): number;
}

/** What was counted by second at a moment. */
export class MinuteView implements MinuteCounts {
  readonly #seconds: readonly SecondCount[];

  /** `seconds`: of the last minutes, in any order, a second as often as may be. */
  constructor(seconds: readonly SecondCount[]) {
    this.#seconds = seconds;
  }

  count(nowMs: number): number {
    return this.#within(nowMs).reduce((sum, { count }) => sum + count, 0);
  }

  waitMs(limit: number, nowMs: number): number {
    const seconds = this.#within(nowMs).sort((a, b) => a.second - b.second);
    let left = seconds.reduce((sum, { count }) => sum + count, 0);
    let waitMs = 0;
    for (const { second, count } of seconds) {
      if (left < limit) break;
      left -= count;
      waitMs = (second + SLOTS) * 1000 - nowMs;
    }
    return waitMs;
  }

  #within(nowMs: number): SecondCount[] {
    const now = secondOf(nowMs);
    // Another thread's clock may be a little ahead.
    return this.#seconds.filter(({ second, count }) => Math.abs(now - second) < SLOTS && count > 0);
  }
}

/**
 * What has happened within the last minute, in cells that threads may share: one for each second. The minute is counted
 * from the beginning of its first second, so that no 60 seconds hold more than a limit.
 */
export class MinuteWindow implements MinuteCounts {
  /** Cells that one takes. */
  static readonly cells = SLOTS;
  readonly #cells: BigInt64Array;

  /** `cells`: all 0 at first. */
  constructor(cells: BigInt64Array = new BigInt64Array(SLOTS)) {
    this.#cells = cells;
  }

  count(nowMs: number): number {
    return this.#view().count(nowMs);
  }

  /** Adds one, unless that makes more than `limit`: then false, whatever other threads do meanwhile. */
  tryAdd(limit: number, nowMs: number): boolean {
    if (this.count(nowMs) >= limit) return false;
    this.add(1, nowMs);
    // Of several that take the last place at once, at most one sees no more than the limit.
    if (this.count(nowMs) <= limit) return true;
    this.add(-1, nowMs);
    return false;
  }

  add(amount: number, nowMs: number): void {
    const second = secondOf(nowMs);
    const at = second % SLOTS;
    for (let seen = Atomics.load(this.#cells, at);;) {
      const before = secondIn(seen) === second ? countIn(seen) : 0;
      const count = Math.min(MAX_COUNT, Math.max(0, before + amount));
      const next = (BigInt(second) << COUNT_BITS) | BigInt(count);
      const found = Atomics.compareExchange(this.#cells, at, seen, next);
      if (found === seen) return;
      seen = found;
    }
  }

  waitMs(limit: number, nowMs: number): number {
    return this.#view().waitMs(limit, nowMs);
  }

  #view(): MinuteView {
    const seconds: SecondCount[] = [];
    for (let at = 0; at < SLOTS; at++) {
      const cell = Atomics.load(this.#cells, at);
      const count = countIn(cell);
      if (count > 0) seconds.push({ second: secondIn(cell), count });
    }
    return new MinuteView(seconds);
  }
}

function secondOf(unixMs: number): number {
  return Math.floor(unixMs / 1000);
}

function secondIn(cell: bigint): number {
  return Number(cell >> COUNT_BITS);
}

function countIn(cell: bigint): number {
  return Number(BigInt.asUintN(Number(COUNT_BITS), cell));
}
