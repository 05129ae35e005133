import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { Random } from "../../../base/random.ts";
import {
  countsOf,
  leaderPosterior,
  majorityIsSettled,
  stopRule,
  windowIsUnanimous,
} from "../../../scorer/policy/stop_rules.ts";

/** All ways in which the remaining members can vote, for groups seen or one new group each. */
function* outcomes(
  order: readonly (number | undefined)[],
  remaining: number,
): Generator<(number | undefined)[]> {
  if (remaining === 0) {
    yield [...order];
    return;
  }
  const seen = order.filter((group) => group !== undefined);
  const fresh = Math.max(-1, ...seen) + 1;
  for (const vote of [undefined, ...Array.from({ length: fresh + 1 }, (_, group) => group)]) {
    yield* outcomes([...order, vote], remaining - 1);
  }
}

test("a majority is settled exactly when no vote of the remaining members can change it", () => {
  const votes = fc.array(fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined }), {
    minLength: 1,
    maxLength: 6,
  });
  fc.assert(fc.property(votes, fc.integer({ min: 0, max: 3 }), (order, remaining) => {
    const leaderOf = (order: readonly (number | undefined)[]) => {
      const sizes = [0, 1, 2, 3, 4, 5, 6, 7].map((group) => order.filter((vote) => vote === group).length);
      const most = Math.max(...sizes);
      const leaders = sizes.flatMap((size, group) => size === most ? [group] : []);
      return most > 0 && leaders.length === 1 ? leaders[0] : undefined;
    };
    const leader = leaderOf(order);
    const always = leader !== undefined &&
      [...outcomes(order, remaining)].every((outcome) => leaderOf(outcome) === leader);
    assert.equal(majorityIsSettled(countsOf(order), remaining), always);
  }));
});

test("the posterior of two groups is Beta's upper half, as an integral says", () => {
  const integral = (a: number, b: number, from: number) => {
    const steps = 20_000;
    const width = (1 - from) / steps;
    let sum = 0;
    for (let step = 0; step < steps; step++) {
      const x = from + (step + 0.5) * width;
      sum += x ** a * (1 - x) ** b * width;
    }
    return sum;
  };
  for (const [a, b] of [[1, 0], [2, 0], [3, 0], [2, 1], [5, 3], [9, 0], [4, 4]] as const) {
    const expected = integral(a, b, 0.5) / integral(a, b, 0);
    assert.ok(Math.abs(leaderPosterior([a, b]) - expected) < 1e-6, `${a}, ${b}`);
  }
  assert.equal(leaderPosterior([2]), 7 / 8);
  assert.equal(leaderPosterior([3]), 15 / 16);
  assert.equal(leaderPosterior([4]), 31 / 32);
});

test("the posterior of more groups is the share of Dirichlet draws in which the leader is ahead", () => {
  const random = new Random("dirichlet");
  const draws = 40_000;
  for (const counts of [[3, 1, 1], [2, 2, 1], [5, 2, 1, 1], [1, 1, 1]]) {
    let ahead = 0;
    for (let draw = 0; draw < draws; draw++) {
      // A Gamma variable of whole shape is a sum of exponential ones; Dirichlet is Gamma variables over their sum.
      const gammas = counts.map((votes) => {
        let sum = 0;
        for (let k = 0; k <= votes; k++) sum += random.exponential(1);
        return sum;
      });
      if (gammas.every((gamma, index) => index === 0 || gammas[0]! > gamma)) ahead++;
    }
    const value = leaderPosterior(counts);
    const error = 4 * Math.sqrt(value * (1 - value) / draws);
    assert.ok(Math.abs(value - ahead / draws) < error, `${counts}: ${value}, drawn ${ahead / draws}`);
  }
  assert.ok(Math.abs(leaderPosterior([1, 1, 1]) - 1 / 3) < 1e-9);
  assert.ok(Math.abs(leaderPosterior([4, 4, 4, 4]) - 1 / 4) < 1e-9);
  // Two groups the long way round: a third one without weight in the integral changes little.
  assert.ok(leaderPosterior([5, 1, 0]) < leaderPosterior([5, 1]));
});

test("a window holds when the last answers are equal and all of them say something", () => {
  assert.ok(windowIsUnanimous([0, 1, 1], 2));
  assert.ok(!windowIsUnanimous([1, 1, 0], 2));
  assert.ok(!windowIsUnanimous([1, undefined, 1], 2));
  assert.ok(!windowIsUnanimous([undefined, undefined], 2));
  assert.ok(!windowIsUnanimous([1], 2));
});

test("where no answer has more than half the probability, windows of w equal answers are at most 2^(1-w)", () => {
  const weights = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 2, maxLength: 4 });
  fc.assert(
    fc.property(weights, fc.integer({ min: 2, max: 6 }), (weights, window) => {
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      const shares = weights.map((weight) => weight / total);
      fc.pre(Math.max(...shares) <= 0.5);
      // Every sequence of answers, with its probability.
      let unanimous = 0;
      for (let code = 0; code < shares.length ** window; code++) {
        const order = Array.from(
          { length: window },
          (_, place) => Math.floor(code / shares.length ** place) % shares.length,
        );
        if (windowIsUnanimous(order, window)) {
          unanimous += order.reduce((product, group) => product * shares[group]!, 1);
        }
      }
      assert.ok(unanimous <= 2 ** (1 - window) + 1e-12);
    }),
    { numRuns: 40 },
  );
});

test("no rule holds without two equal votes, and each gives the numbers it used", () => {
  const rules = { level: 0.6, window: 2 };
  for (const stop of ["majority", "posterior", "window"] as const) {
    for (const order of [[], [undefined], [0], [0, undefined], [0, 1]]) {
      assert.equal(stopRule({ stop, ...rules }, { order, remaining: 0 }).holds, false, `${stop} ${order}`);
    }
    const { holds, numbers } = stopRule({ stop, ...rules }, { order: [0, 0], remaining: 1 });
    assert.equal(holds, true);
    assert.deepEqual(numbers.votes, [2]);
    assert.equal(numbers.stop, stop);
  }
  const { numbers } = stopRule({ stop: "posterior", ...rules }, { order: [0, 0, 1], remaining: 1 });
  assert.equal(numbers.posterior, 0.6875);
});
