import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { clusteredInterval } from "../../../bench/statistics/clustered_share.ts";
import { pairedAnswers } from "../../../bench/statistics/paired_answers.ts";
import {
  bootstrapDifference,
  bootstrapRatio,
  pairedBootstrap,
} from "../../../bench/statistics/paired_bootstrap.ts";
import { wilsonInterval } from "../../../bench/statistics/statistics.ts";
import { fc } from "../../properties.ts";

/** Values of SciPy and statsmodels: `tests/fixtures/statistics/make_statistics.py`. */
const { wilson, cases } = JSON.parse(
  readFileSync(new URL("../../fixtures/statistics/statistics.json", import.meta.url), "utf8"),
);

interface KnownCase {
  /** For each question and repeat whether the one, and the other, was right. */
  readonly answers: readonly (readonly (readonly [0 | 1, 0 | 1])[])[];
  readonly clustered: { readonly low: number; readonly high: number };
  readonly mcnemar: number;
  readonly sign_flips: { readonly p: number; readonly exact: boolean };
  readonly bootstrap: readonly [number, number];
}

const known: readonly KnownCase[] = cases;
const hitsOf = (answers: KnownCase["answers"][number], way: 0 | 1) =>
  answers.reduce((sum, one) => sum + one[way], 0);

function near(value: number, expected: number, tolerance: number): void {
  assert.ok(Math.abs(value - expected) <= tolerance, `${value} is not ${expected}`);
}

test("Wilson's interval is statsmodels', and that of repeated questions Wilson's with its cluster-robust variance", () => {
  for (const { hits, count, interval: [low, high] } of wilson) {
    const own = wilsonInterval(hits, count);
    near(own.low, low, 1e-6);
    near(own.high, high, 1e-6);
  }
  for (const { answers, clustered } of known) {
    const own = clusteredInterval(
      answers.map((one) => ({ hits: hitsOf(one, 0), count: one.length })),
    );
    near(own.low, clustered.low, 1e-6);
    near(own.high, clustered.high, 1e-6);
  }
});

test("McNemar's and the sign-flip test are those of statsmodels and SciPy", () => {
  for (const { answers, mcnemar, sign_flips: { p, exact } } of known) {
    const own = pairedAnswers(answers.map((one) => one.map(([a, b]) => [a === 1, b === 1])));
    if (answers[0]!.length === 1) near(own.p, mcnemar, 1e-9);
    // SciPy draws signs where there are too many to try all.
    near(own.p, p, exact ? 1e-9 : 0.005);
  }
});

test("The paired bootstrap's interval is SciPy's percentile interval, as far as chance goes", () => {
  for (const { answers, bootstrap: [low, high] } of known) {
    const sums = answers.map((one) => [hitsOf(one, 0), hitsOf(one, 1)] as const);
    const own = bootstrapDifference(sums, answers.length * answers[0]!.length);
    const step = 1 / answers.length;
    near(own.interval.low, low, 0.04 * (high - low) + step / 2);
    near(own.interval.high, high, 0.04 * (high - low) + step / 2);
    assert.deepEqual(bootstrapDifference(sums, answers.flat().length), own, "the same again");
  }
});

test("With one answer for each question the interval over questions is Wilson's", () => {
  fc.assert(fc.property(fc.array(fc.boolean(), { maxLength: 80 }), (answers) => {
    const hits = answers.filter((right) => right).length;
    const own = clusteredInterval(answers.map((right) => ({ hits: right ? 1 : 0, count: 1 })));
    const { low, high } = wilsonInterval(hits, answers.length);
    near(own.low, low, 1e-12);
    near(own.high, high, 1e-12);
  }));
});

test("Repeats that always say the same are worth one answer, and independent ones as many as there are", () => {
  const copies = [1, 0, 1, 1, 0, 1].map((hit) => ({ hits: 8 * hit, count: 8 }));
  const [own, six] = [clusteredInterval(copies), wilsonInterval(4, 6)];
  near(own.low, six.low, 1e-12);
  near(own.high, six.high, 1e-12);
  assert.deepEqual(clusteredInterval([{ hits: 8, count: 8 }, { hits: 8, count: 8 }]), wilsonInterval(2, 2));
  const mixed = Array.from({ length: 6 }, () => ({ hits: 4, count: 8 }));
  assert.deepEqual(clusteredInterval(mixed), wilsonInterval(24, 48), "never narrower than independent ones");
  assert.deepEqual(clusteredInterval([]), { low: 0, high: 1 });
});

test("The interval over questions holds the share nearly 95 times of 100 where answers to one are alike", () => {
  const random = new Random("clusters");
  let [held, heldByWilson] = [0, 0];
  const rounds = 600;
  for (let round = 0; round < rounds; round++) {
    // A question is easy or hard: its answers are right with probability 0.9 or 0.3, on average 0.6.
    const questions = Array.from({ length: 40 }, () => {
      const ease = random.next() < 0.5 ? 0.9 : 0.3;
      return {
        hits: Array.from({ length: 6 }, () => random.next() < ease ? 1 : 0).reduce<number>(
          (a, b) => a + b,
          0,
        ),
        count: 6,
      };
    });
    const { low, high } = clusteredInterval(questions);
    if (low <= 0.6 && 0.6 <= high) held++;
    const plain = wilsonInterval(questions.reduce((sum, { hits }) => sum + hits, 0), 240);
    if (plain.low <= 0.6 && 0.6 <= plain.high) heldByWilson++;
  }
  assert.ok(held > 0.925 * rounds && held < 0.975 * rounds, `${held} of ${rounds}`);
  assert.ok(heldByWilson < 0.85 * rounds, `${heldByWilson} of ${rounds}: answers are not independent`);
});

test("A bootstrap of times says how far they are apart, and of equal ones nothing", () => {
  const times = Array.from({ length: 50 }, (_, index): readonly [number, number] => [
    100 + index % 7,
    200 + index % 5,
  ]);
  const { interval: { low, high }, p } = bootstrapRatio(times);
  assert.ok(low > 0.5 && high < 0.52 && low < high && p === 0, `${low} ${high} ${p}`);
  const same = bootstrapRatio(times.map(([one]) => [one, one]));
  assert.deepEqual(same, { interval: { low: 1, high: 1 }, p: 1 });
  assert.ok(Number.isNaN(pairedBootstrap([], (a, b) => a - b, 0).interval.low));
});
