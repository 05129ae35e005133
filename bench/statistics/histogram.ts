/** Buckets per doubling: neighbours differ by 1.1 %, so that a quantile is off by at most 0.6 %. */
const BUCKETS_PER_OCTAVE = 64;
/** The lower end of the first bucket and the number of doublings up to the last one: 1 µs to 12 days, in ms. */
const FIRST_MS = 0.001;
const OCTAVES = 40;

/** A histogram as it is written to a file. */
export interface KeptDurations {
  /** Number of durations of each bucket that has one, by the bucket. */
  readonly counts: readonly (readonly [bucket: number, count: number])[];
  /** Sum of the durations and of their squares, in ms and ms². */
  readonly sum: number;
  readonly squares: number;
  /** Shortest and longest one, in ms. */
  readonly min: number;
  readonly max: number;
}

/** Durations in fixed logarithmic buckets: any number of values in the same memory. */
export class DurationHistogram {
  readonly #counts = new Float64Array(BUCKETS_PER_OCTAVE * OCTAVES);
  #count = 0;
  #sum = 0;
  #squares = 0;
  #min = Infinity;
  #max = -Infinity;

  /** Adds a duration in ms; negative ones count as 0. */
  add(ms: number): void {
    const value = Math.max(0, ms);
    const bucket = Math.floor(Math.log2(Math.max(value, FIRST_MS) / FIRST_MS) * BUCKETS_PER_OCTAVE);
    const at = Math.min(this.#counts.length - 1, bucket);
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#count++;
    this.#sum += value;
    this.#squares += value * value;
    this.#min = Math.min(this.#min, value);
    this.#max = Math.max(this.#max, value);
  }

  /** Adds those of another one. */
  addKept({ counts, sum, squares, min, max }: KeptDurations): void {
    for (const [bucket, count] of counts) {
      this.#counts[bucket] = (this.#counts[bucket] ?? 0) + count;
      this.#count += count;
    }
    this.#sum += sum;
    this.#squares += squares;
    this.#min = Math.min(this.#min, min);
    this.#max = Math.max(this.#max, max);
  }

  /** For a file; undefined while it is empty. */
  kept(): KeptDurations | undefined {
    if (this.#count === 0) return undefined;
    const counts = [...this.#counts.entries()].filter(([, count]) => count > 0);
    return { counts, sum: this.#sum, squares: this.#squares, min: this.#min, max: this.#max };
  }

  get count(): number {
    return this.#count;
  }

  /** NaN while it is empty, as all that follow. */
  get mean(): number {
    return this.#sum / this.#count;
  }

  get standardDeviation(): number {
    return Math.sqrt(Math.max(0, this.#squares / this.#count - this.mean ** 2));
  }

  get max(): number {
    return this.#count === 0 ? NaN : this.#max;
  }

  /** The value that a share from 0 to 1 of the durations does not exceed, in ms. */
  quantile(share: number): number {
    if (this.#count === 0) return NaN;
    const rank = Math.max(1, Math.ceil(share * this.#count));
    let seen = 0;
    for (const [bucket, count] of this.#counts.entries()) {
      seen += count;
      if (seen < rank) continue;
      const middle = FIRST_MS * 2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE);
      return Math.min(this.#max, Math.max(this.#min, middle));
    }
    return this.#max;
  }
}
