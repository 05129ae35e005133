/** Requests of late, in all and for each worker: what is older counts half for each half-life. Time is requests. */
export class RecentRequests {
  readonly #halfLife: number;
  readonly #byOrdinal = new Map<number, number>();
  #all = 0;
  #ever = 0;
  #age = 0;
  #sinceHalved = 0;

  /** `halfLife`: requests for each worker. */
  constructor(halfLife: number) {
    this.#halfLife = halfLife;
  }

  get all(): number {
    return this.#all;
  }

  /** Requests so far, of whatever time. */
  get ever(): number {
    return this.#ever;
  }

  /** Half-lives so far. */
  get age(): number {
    return this.#age;
  }

  /** One request more, for one of so many workers. */
  count(workers: number): void {
    this.#ever++;
    this.#all++;
    if (++this.#sinceHalved < this.#halfLife * workers) return;
    this.#sinceHalved = 0;
    this.#age++;
    this.#all /= 2;
    for (const [ordinal, requests] of this.#byOrdinal) {
      // Workers that have left are forgotten in the end.
      if (requests < 1) this.#byOrdinal.delete(ordinal);
      else this.#byOrdinal.set(ordinal, requests / 2);
    }
  }

  of(ordinal: number): number {
    return this.#byOrdinal.get(ordinal) ?? 0;
  }

  add(ordinal: number, requests: number): void {
    this.#byOrdinal.set(ordinal, Math.max(0, this.of(ordinal) + requests));
  }
}
