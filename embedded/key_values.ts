import type { CacheSlot } from "../onnx/transformer_inputs.ts";

/** Numbers, or the bits of numbers of 16 bits. */
export type Numbers = Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

/** The form of a model's cache: per tensor, its heads and their size. */
export type CacheLayout = readonly Pick<CacheSlot, "type" | "heads" | "headDimensions">[];

/** Bytes that the cache takes for one token. */
export function bytesPerToken(layout: CacheLayout): number {
  return layout.reduce(
    (sum, { type, heads, headDimensions }) => sum + heads * headDimensions * (type === "float32" ? 4 : 2),
    0,
  );
}

/**
 * Keys and values of a sequence's first tokens. Each tensor is [heads, tokens, size] without gaps, the form in which
 * models take and give them, so that a step costs no copy here. Never changed once it is full: who goes on from it
 * writes to another one. Several may hold it; the last one's `release` gives its memory back.
 */
export class KeyValues {
  readonly tensors: readonly Numbers[];
  /** Tokens that there is memory for. */
  readonly capacity: number;
  tokens = 0;
  #holders = 1;
  readonly #giveBack: (self: KeyValues) => void;

  constructor(layout: CacheLayout, capacity: number, giveBack: (self: KeyValues) => void) {
    this.capacity = capacity;
    this.#giveBack = giveBack;
    this.tensors = layout.map(({ type, heads, headDimensions }) => {
      const length = heads * capacity * headDimensions;
      return type === "float32" ? new Float32Array(length) : new Uint16Array(length);
    });
  }

  /** True when somebody holds it besides the one who asks. */
  get shared(): boolean {
    return this.#holders > 1;
  }

  retain(): KeyValues {
    this.#holders++;
    return this;
  }

  release(): void {
    if (--this.#holders === 0) this.#giveBack(this);
  }

  /** For the pool: it is used again. */
  reuse(): KeyValues {
    this.tokens = 0;
    this.#holders = 1;
    return this;
  }
}

/** Fewest tokens that memory is taken for. */
const LEAST_TOKENS = 16;

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
  readonly #layout: CacheLayout;
  /** Given back last, at the end. */
  #free: KeyValues[] = [];
  #used = 0;
  #unused = 0;

  constructor(layout: CacheLayout, maxTokens: number) {
    this.#layout = layout;
    this.maxTokens = maxTokens;
  }

  /** Tokens whose memory somebody holds. */
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
    return new KeyValues(this.#layout, size, (one) => {
      this.#used -= one.capacity;
      this.#unused += one.capacity;
      this.#free.push(one);
    });
  }

  /** The first tokens of a sequence, copied; undefined when there is no room. */
  prefix(source: KeyValues, tokens: number): KeyValues | undefined {
    const copy = this.take(tokens);
    if (copy === undefined) return undefined;
    for (const [index, { heads, headDimensions }] of this.#layout.entries()) {
      const [from, to] = [source.tensors[index]!, copy.tensors[index]!];
      const length = tokens * headDimensions;
      for (let head = 0; head < heads; head++) {
        const start = head * source.tokens * headDimensions;
        to.set(from.subarray(start, start + length), head * length);
      }
    }
    copy.tokens = tokens;
    return copy;
  }

  #drop(one: KeyValues): void {
    this.#free.splice(this.#free.indexOf(one), 1);
    this.#unused -= one.capacity;
  }
}
