/** A count of things in use. */
export interface Tally {
  readonly value: number;
  /** Adds one, unless there are `limit` already: then false, whatever other threads do meanwhile. */
  tryAdd(limit: number): boolean;
  add(amount: number): void;
}

/** A count of one thread. */
export class LocalTally implements Tally {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  tryAdd(limit: number): boolean {
    if (this.#value >= limit) return false;
    this.#value++;
    return true;
  }

  add(amount: number): void {
    this.#value += amount;
  }
}

/** A count in memory that several threads share, with what this thread has added to it told apart. */
export class SharedTally implements Tally {
  readonly #cells: Int32Array;
  readonly #all: number;
  readonly #own: number;

  /** `all`, `own`: indices in `cells` of the count, and of this thread's part in it. */
  constructor(cells: Int32Array, all: number, own: number) {
    this.#cells = cells;
    this.#all = all;
    this.#own = own;
  }

  get value(): number {
    return Atomics.load(this.#cells, this.#all);
  }

  tryAdd(limit: number): boolean {
    for (let seen = this.value; seen < limit;) {
      const found = Atomics.compareExchange(this.#cells, this.#all, seen, seen + 1);
      if (found === seen) {
        Atomics.add(this.#cells, this.#own, 1);
        return true;
      }
      seen = found;
    }
    return false;
  }

  add(amount: number): void {
    Atomics.add(this.#cells, this.#own, amount);
    Atomics.add(this.#cells, this.#all, amount);
  }
}
