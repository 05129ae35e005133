import {
  type CacheGrowth,
  type CacheLayout,
  type CacheRows,
  copyRows,
  type Numbers,
} from "./cache_layout.ts";

/**
 * Keys and values of a sequence's first tokens, in the form in which models take and give them. What it holds never
 * changes; at most more is appended. Several may hold it, each knowing how many of its tokens are theirs; the last
 * one's `release` gives its memory back.
 */
export class KeyValues {
  readonly tensors: readonly Numbers[];
  /** Tokens that there is memory for. */
  readonly capacity: number;
  tokens = 0;
  #holders = 1;
  readonly #growth: CacheGrowth;
  readonly #giveBack: (self: KeyValues) => void;

  constructor(
    layout: CacheLayout,
    growth: CacheGrowth,
    capacity: number,
    giveBack: (self: KeyValues) => void,
  ) {
    this.capacity = capacity;
    this.#growth = growth;
    this.#giveBack = giveBack;
    this.tensors = layout.map(({ type, heads, headDimensions }) => {
      const length = heads * capacity * headDimensions;
      return type === "float32" ? new Float32Array(length) : new Uint16Array(length);
    });
  }

  /** Rows from one head to the next when it holds so many tokens. */
  rows(tokens: number): number {
    return this.#growth === "appends" ? this.capacity : tokens;
  }

  /** The place of its tokens, or of as many as it is to hold. */
  place(tokens: number): CacheRows {
    return { tensors: this.tensors, slot: 0, rows: this.rows(tokens), first: 0 };
  }

  /** True when it has several holders. */
  get shared(): boolean {
    return this.#holders > 1;
  }

  retain(): this {
    this.#holders++;
    return this;
  }

  release(): void {
    if (--this.#holders === 0) this.#giveBack(this);
  }

  /** Makes it new again; for the pool. */
  reuse(): this {
    this.tokens = 0;
    this.#holders = 1;
    return this;
  }
}

/** Memory that a step reads and writes; the same for a model that appends. */
export interface Extension {
  /** Undefined when there are no tokens before. */
  readonly from: KeyValues | undefined;
  /** Retained for the caller. */
  readonly into: KeyValues;
}

/** Fewest tokens that memory is taken for. */
const LEAST_TOKENS = 16;
/** By how much memory grows that is appended to, as a share: all that is copied then adds up to a few times the whole. */
const GROWTH = 0.25;

/** Sizes in steps of an eighth, so that memory that is given back fits others. */
export function sizeFor(tokens: number): number {
  const step = Math.max(LEAST_TOKENS, 2 ** (Math.floor(Math.log2(Math.max(tokens, 1))) - 3));
  return Math.ceil(tokens / step) * step;
}

/**
 * Memory for keys and values, bounded. What is given back is used again: memory that is left to the garbage collector
 * piles up, hundreds of megabytes in each step of a model.
 */
export class KeyValuePool {
  /** The most tokens that there is memory for. */
  readonly maxTokens: number;
  /** The longest sequence that there is always room for: one copy is read, another one written; sizes are rounded up. */
  readonly maxSequenceTokens: number;
  readonly layout: CacheLayout;
  readonly growth: CacheGrowth;
  /** Memory given back; the last at the end. */
  #free: KeyValues[] = [];
  #used = 0;
  #unused = 0;

  constructor(layout: CacheLayout, growth: CacheGrowth, maxTokens: number) {
    this.layout = layout;
    this.growth = growth;
    this.maxTokens = maxTokens;
    this.maxSequenceTokens = Math.floor(maxTokens / 2.25) - 32;
  }

  /** Tokens whose memory is held. */
  get usedTokens(): number {
    return this.#used;
  }

  /** Memory for so many tokens; undefined when there is no room for it. */
  take(tokens: number): KeyValues | undefined {
    const size = sizeFor(tokens);
    let best: KeyValues | undefined;
    for (const one of this.#free) {
      const fits = one.capacity >= tokens && one.capacity <= 2 * size;
      if (fits && (best === undefined || one.capacity < best.capacity)) best = one;
    }
    if (best !== undefined && this.#used + best.capacity <= this.maxTokens) {
      this.#drop(best);
      this.#used += best.capacity;
      return best.reuse();
    }
    if (this.#used + size > this.maxTokens) return undefined;
    while (this.#used + this.#unused + size > this.maxTokens) this.#drop(this.#free[0]!);
    this.#used += size;
    return new KeyValues(this.layout, this.growth, size, (one) => {
      this.#used -= one.capacity;
      this.#unused += one.capacity;
      this.#free.push(one);
    });
  }

  /**
   * What a sequence goes on from that shares its first tokens with `source`, retained or copied; undefined when there
   * is no room. Memory that is appended to is copied when its place behind them is taken, not before.
   */
  branch(source: KeyValues, tokens: number): KeyValues | undefined {
    if (this.growth === "appends" || source.tokens === tokens) return source.retain();
    return this.#copy(source, tokens, this.take(tokens));
  }

  /**
   * Room for `more` tokens behind the first `known` of `past`; undefined when there is none. `expected` is how many
   * there will be in the end, for memory that is appended to.
   */
  extend(
    past: KeyValues | undefined,
    known: number,
    more: number,
    expected: number,
  ): Extension | undefined {
    const all = known + more;
    if (this.growth === "copies") {
      const into = this.take(all);
      return into && { from: past, into };
    }
    // The first to append gets the place behind a prefix, even one with several holders.
    if (past !== undefined && past.tokens === known && past.capacity >= all) {
      return { from: past, into: past.retain() };
    }
    const wanted = Math.min(
      this.maxSequenceTokens,
      Math.max(expected, (past?.capacity ?? 0) * (1 + GROWTH)),
    );
    const room = (wanted > all ? this.take(wanted) : undefined) ?? this.take(all);
    const into = past === undefined ? room : this.#copy(past, known, room);
    return into && { from: into, into };
  }

  #copy(source: KeyValues, tokens: number, copy: KeyValues | undefined): KeyValues | undefined {
    if (copy === undefined) return undefined;
    copyRows(this.layout, tokens, source.place(source.tokens), copy.place(tokens));
    copy.tokens = tokens;
    return copy;
  }

  #drop(one: KeyValues): void {
    this.#free.splice(this.#free.indexOf(one), 1);
    this.#unused -= one.capacity;
  }
}
