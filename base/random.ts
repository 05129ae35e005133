/**
 * Seeded randomness: xoshiro128** 1.1 (Blackman and Vigna, 2018), its state the 128-bit cyrb128 hash (bryc) of the
 * seed text, so that a million streams never coincide. Not for secrets. The same seed text gives the same numbers
 * everywhere.
 */
export class Random {
  readonly seed: string;
  #s0: number;
  #s1: number;
  #s2: number;
  #s3: number;

  constructor(seed: string) {
    this.seed = seed;
    [this.#s0, this.#s1, this.#s2, this.#s3] = cyrb128(seed);
    // From a state of zeros xoshiro would give zeros for ever.
    if ((this.#s0 | this.#s1 | this.#s2 | this.#s3) === 0) this.#s3 = 1;
  }

  /** A generator of its own for one purpose, whose draws never shift the numbers of other purposes. */
  stream(purpose: string): Random {
    return new Random(`${this.seed}/${purpose}`);
  }

  /** A whole number in [0, 2^32). */
  uint32(): number {
    const result = Math.imul(rotl(Math.imul(this.#s1, 5), 7), 9) >>> 0;
    const t = this.#s1 << 9;
    this.#s2 ^= this.#s0;
    this.#s3 ^= this.#s1;
    this.#s1 ^= this.#s2;
    this.#s0 ^= this.#s3;
    this.#s2 ^= t;
    this.#s3 = rotl(this.#s3, 11);
    return result;
  }

  /** A number in [0, 1) with 53 random bits. */
  next(): number {
    return ((this.uint32() >>> 5) * 67108864 + (this.uint32() >>> 6)) / 9007199254740992;
  }

  /** A whole number in [0, bound); `bound` at most 2^53. */
  int(bound: number): number {
    if (!Number.isSafeInteger(bound) || bound < 1) {
      throw new RangeError(
        `Cannot draw below bound: it must be a positive safe integer: current value is ${bound}`,
      );
    }
    return Math.floor(this.next() * bound);
  }

  /** One element of a non-empty list. */
  pick<T>(list: readonly T[]): T {
    return list[this.int(list.length)]!;
  }

  /** The list in another order, all of them equally likely (Fisher and Yates). */
  shuffled<T>(list: readonly T[]): T[] {
    const result = [...list];
    for (let at = result.length - 1; at > 0; at--) {
      const other = this.int(at + 1);
      [result[at], result[other]] = [result[other]!, result[at]!];
    }
    return result;
  }

  /** A standard normal number (Box-Muller, one of the two). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }

  /** An exponential number with the given mean. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }

  /** `length` hexadecimal digits, for ids. */
  hex(length: number): string {
    let text = "";
    while (text.length < length) {
      const word = this.uint32();
      text += HEX[word >>> 24]! + HEX[(word >>> 16) & 255]! + HEX[(word >>> 8) & 255]! + HEX[word & 255]!;
    }
    return text.length === length ? text : text.slice(0, length);
  }
}

/** All bytes in hexadecimal digits. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** A seed that nobody can guess, for everything that is not a simulation or a test. */
export function systemSeed(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(16).padStart(8, "0"))
    .join("");
}

/** The cyrb128 hash of a text, as four 32-bit words. */
function cyrb128(text: string): [number, number, number, number] {
  let h1 = 1779033703;
  let h2 = 3144134277;
  let h3 = 1013904242;
  let h4 = 2773480762;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    h1 = h2 ^ Math.imul(h1 ^ unit, 597399067);
    h2 = h3 ^ Math.imul(h2 ^ unit, 2869860233);
    h3 = h4 ^ Math.imul(h3 ^ unit, 951274213);
    h4 = h1 ^ Math.imul(h4 ^ unit, 2716044179);
  }
  h1 = Math.imul(h3 ^ (h1 >>> 18), 597399067);
  h2 = Math.imul(h4 ^ (h2 >>> 22), 2869860233);
  h3 = Math.imul(h1 ^ (h3 >>> 17), 951274213);
  h4 = Math.imul(h2 ^ (h4 >>> 19), 2716044179);
  h1 ^= h2 ^ h3 ^ h4;
  return [h1, h2 ^ h1, h3 ^ h1, h4 ^ h1];
}

/** 32-bit FNV-1a over the UTF-16 code units of a text (two bytes each), as an unsigned number. */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    hash = Math.imul(hash ^ (unit & 0xff), 0x01000193);
    hash = Math.imul(hash ^ (unit >>> 8), 0x01000193);
  }
  return hash >>> 0;
}

function rotl(x: number, k: number): number {
  return (x << k) | (x >>> (32 - k));
}
