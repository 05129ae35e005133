/** A prefix, and the worker where its cache is. */
export interface PrefixHome {
  ordinal: number;
  /** Requests of late. */
  requests: number;
  /** The time at which `requests` was right, in half-lives. */
  age: number;
  /** Number of the request that it came with. */
  bornAt: number;
  /** True once the worker has read a prompt that begins with it: its cache has it. */
  read: boolean;
  /** Tokens that were found in the worker's cache, on the whole of late; undefined where engines do not say. */
  cachedTokens: number | undefined;
}

/**
 * Homes of prefixes by their hashes, in bounded memory: up to `capacity` that were seen of late, and as many of those
 * before, of which the ones that are seen again stay.
 */
export class PrefixHomes {
  readonly #capacity: number;
  #recent = new Map<number, PrefixHome>();
  #before = new Map<number, PrefixHome>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Prefixes that are remembered; at most twice the capacity. */
  get size(): number {
    return this.#recent.size + this.#before.size;
  }

  /** The home of a prefix, its requests as of now; undefined for one that is not remembered. */
  find(hash: number, age: number): PrefixHome | undefined {
    let home = this.#recent.get(hash);
    if (home === undefined) {
      home = this.#before.get(hash);
      if (home === undefined) return undefined;
      this.#keep(hash, home);
    }
    if (home.age !== age) {
      home.requests *= 2 ** (home.age - age);
      home.age = age;
    }
    return home;
  }

  add(hash: number, home: PrefixHome): void {
    this.#keep(hash, home);
  }

  #keep(hash: number, home: PrefixHome): void {
    if (this.#recent.size >= this.#capacity) {
      this.#before = this.#recent;
      this.#recent = new Map();
    }
    this.#before.delete(hash);
    this.#recent.set(hash, home);
  }
}
