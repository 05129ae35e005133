/** Buckets per doubling: neighbours differ by 1.1 %, so that a quantile is off by at most 0.6 %. */
const BUCKETS_PER_OCTAVE = 64;
/** The lower end of the first bucket and the number of doublings up to the last one: 1 µs to 12 days, in ms. */
const FIRST_MS = 0.001;
const OCTAVES = 40;

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
