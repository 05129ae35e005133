import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { nextMean, nextShare } from "../../../bench/statistics/prediction.ts";

test("bounds of a further share are those of the beta-binomial distribution", () => {
  // scipy.stats.betabinom: ppf(0.025) and ppf(0.975) of (20, 90.5, 10.5) and (50, 20.5, 10.5).
  assert.deepEqual(nextShare({ hits: 90, count: 100, next: 20, confidence: 0.95 }), { low: 0.75, high: 1 });
  assert.deepEqual(nextShare({ hits: 20, count: 30, next: 50, confidence: 0.95 }), { low: 0.44, high: 0.86 });
  // One trial after nothing at all may go either way.
  assert.deepEqual(nextShare({ hits: 0, count: 0, next: 1, confidence: 0.95 }), { low: 0, high: 1 });
  const all = nextShare({ hits: 200, count: 200, next: 1_000, confidence: 0.95 });
  assert.ok(all.low > 0.97 && all.high === 1, `${all.low}`);
});

test("bounds of a further mean hold as often as they say, and wider ones for fewer values to come", () => {
  const random = new Random("next means");
  const draw = (count: number) => Array.from({ length: count }, () => random.exponential(1));
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  let held = 0;
  for (let trial = 0; trial < 200; trial++) {
    const { low, high } = nextMean(draw(60), { next: 20, confidence: 0.9, random, resamples: 200 });
    const next = mean(draw(20));
    if (next >= low && next <= high) held++;
  }
  assert.ok(held > 165 && held < 195, `${held} of 200`);
  const values = draw(60);
  const width = (next: number) => {
    const { low, high } = nextMean(values, { next, confidence: 0.9, random, resamples: 400 });
    return high - low;
  };
  assert.ok(width(2) > 2 * width(50));
});
