import type { Random } from "../../base/random.ts";

/** A distribution in a few numbers, in the unit of its values. */
export interface Summary {
  readonly count: number;
  readonly mean: number;
  readonly min: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/** Summarises values; NaN everywhere when there are none. */
export function summaryOf(values: readonly number[]): Summary {
  const sorted = [...values].sort((a, b) => a - b);
  return {
    count: sorted.length,
    mean: meanOf(sorted),
    min: quantile(sorted, 0),
    p50: quantile(sorted, 0.5),
    p90: quantile(sorted, 0.9),
    p99: quantile(sorted, 0.99),
    max: quantile(sorted, 1),
  };
}

/** The value at a share from 0 to 1 of sorted values, interpolated between neighbours; NaN when there are none. */
export function quantile(sorted: readonly number[], share: number): number {
  const at = share * (sorted.length - 1);
  const below = sorted[Math.floor(at)] ?? NaN;
  const above = sorted[Math.ceil(at)] ?? NaN;
  return below + (above - below) * (at - Math.floor(at));
}

/** Bounds between which a figure is with a probability of 95 %. */
export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** Wilson's interval of a share of which `hits` of `count` were seen; 0 to 1 where nothing was seen. */
export function wilsonInterval(hits: number, count: number): Interval {
  return wilsonShare(hits / count, count);
}

/** Wilson's interval of a share over so many trials, which need be no whole number; 0 to 1 of none. */
export function wilsonShare(share: number, count: number): Interval {
  if (count === 0) return { low: 0, high: 1 };
  const z = 1.959964;
  const middle = (share + z * z / (2 * count)) / (1 + z * z / count);
  const half = z * Math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count);
  return { low: Math.max(0, middle - half), high: Math.min(1, middle + half) };
}

/** Bootstrap interval of what `figureOf` makes of the values: the middle 95 % of it over `resamples` draws with repetition. */
export function bootstrapInterval<T>(
  values: readonly T[],
  figureOf: (values: readonly T[]) => number,
  { random, resamples }: { random: Random; resamples: number },
): Interval {
  const figures = Array.from({ length: resamples }, () => figureOf(values.map(() => random.pick(values))))
    .sort((a, b) => a - b);
  return { low: quantile(figures, 0.025), high: quantile(figures, 0.975) };
}

/** P(x > y) + P(x = y) / 2 for x of the first and y of the second list (Mann and Whitney); NaN when one is empty. */
export function areaUnderCurve(positive: readonly number[], negative: readonly number[]): number {
  const sorted = [
    ...positive.map((value) => ({ value, positive: true })),
    ...negative.map((value) => ({ value, positive: false })),
  ]
    .sort((a, b) => a.value - b.value);
  let wins = 0;
  let below = 0;
  for (let start = 0; start < sorted.length;) {
    let end = start;
    while (end < sorted.length && sorted[end]!.value === sorted[start]!.value) end++;
    const ties = sorted.slice(start, end);
    const ups = ties.filter((entry) => entry.positive).length;
    wins += ups * (below + (ties.length - ups) / 2);
    below += ties.length - ups;
    start = end;
  }
  return wins / (positive.length * negative.length);
}

/**
 * McNemar's exact test of two ways over the same questions: the probability of a difference as large as this one, or
 * larger, if neither is better. `gained`: questions that only the one got right, `lost`: that only the other did.
 */
export function mcnemarProbability(gained: number, lost: number): number {
  const count = gained + lost;
  // In logarithms: 2 to the power of −count may be too small for a number.
  let [term, sum] = [-count * Math.LN2, 0];
  for (let hits = 0; hits <= Math.min(gained, lost); hits++) {
    sum += Math.exp(term);
    term += Math.log((count - hits) / (hits + 1));
  }
  return Math.min(1, 2 * sum);
}

/**
 * The exact sign-flip test (Fisher's randomization test for pairs) of two ways over the same questions: the probability of a
 * sum of differences as far from 0 as this one, or farther, if each difference might as well have the other sign.
 * `differences`: a whole number for each question, such as the right answers that the one has more. With one answer for
 * each question it is McNemar's test.
 */
export function signFlipProbability(differences: readonly number[]): number {
  const sizes = differences.map(Math.abs).filter((size) => size > 0);
  const most = sumOf(sizes);
  // Probabilities of what those sum up to whose sign is positive.
  const sums = new Float64Array(most + 1);
  sums[0] = 1;
  let reached = 0;
  for (const size of sizes) {
    reached += size;
    for (let sum = reached; sum >= 0; sum--) sums[sum] = (sums[sum]! + (sums[sum - size] ?? 0)) / 2;
  }
  const farthest = (most - Math.abs(sumOf(differences))) / 2;
  return Math.min(1, 2 * sumOf([...sums.subarray(0, farthest + 1)]));
}

/** The standard error of the mean, from the sample's standard deviation; NaN of fewer than two values. */
export function standardError(values: readonly number[]): number {
  const mean = meanOf(values);
  const squares = values.map((value) => (value - mean) ** 2);
  return values.length < 2 ? NaN : Math.sqrt(sumOf(squares) / (values.length - 1) / values.length);
}

/** The arithmetic mean; NaN of no values. */
export function meanOf(values: readonly number[]): number {
  return sumOf(values) / values.length;
}

/** The sum; 0 of no values. */
export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
