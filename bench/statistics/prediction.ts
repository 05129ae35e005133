import type { Random } from "../../base/random.ts";
import { type Interval, meanOf, quantile } from "./statistics.ts";

/**
 * Bounds of the share of hits in `next` further trials, after `hits` in `count`: equal tails of the beta-binomial
 * distribution under Jeffreys' prior. `confidence`: probability that it is between them, at least.
 */
export function nextShare(
  { hits, count, next, confidence }: {
    readonly hits: number;
    readonly count: number;
    readonly next: number;
    readonly confidence: number;
  },
): Interval {
  const a = hits + 0.5;
  const b = count - hits + 0.5;
  // In logarithms, since the first term may be too small for a number.
  let log = 0;
  for (let trial = 0; trial < next; trial++) log += Math.log((b + trial) / (a + b + trial));
  const tail = (1 - confidence) / 2;
  let [below, low, high] = [0, 0, next];
  for (let k = 0; k <= next; k++) {
    const above = below + Math.exp(log);
    if (below <= tail) low = k;
    if (below < 1 - tail) high = k;
    below = above;
    log += Math.log((next - k) / (k + 1) * (a + k) / (b + next - k - 1));
  }
  return { low: low / next, high: high / next };
}

/**
 * Bounds of the mean of `next` further values of the same kind: the bootstrap, drawn twice, so that both the values at
 * hand and those to come are taken as chance's.
 */
export function nextMean(
  values: readonly number[],
  { next, confidence, random, resamples }: {
    readonly next: number;
    readonly confidence: number;
    readonly random: Random;
    readonly resamples: number;
  },
): Interval {
  const means = Array.from({ length: resamples }, () => {
    const drawn = values.map(() => random.pick(values));
    return meanOf(Array.from({ length: next }, () => random.pick(drawn)));
  }).sort((a, b) => a - b);
  const tail = (1 - confidence) / 2;
  return { low: quantile(means, tail), high: quantile(means, 1 - tail) };
}
