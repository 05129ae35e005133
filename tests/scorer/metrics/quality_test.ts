import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { qualityOf } from "../../../scorer/metrics/quality.ts";
import { confidenceOf } from "../../../scorer/policy/confidence.ts";
import { referenceGroups } from "../reference.ts";

const settings = { tau: 0.7, gamma: 0.5, literal: false };
const near = (actual: number | undefined, expected: number | null, tolerance: number, what: string) =>
  expected === null ? assert.equal(actual, undefined, what) : assert.ok(
    actual !== undefined && Math.abs(actual - expected) <= tolerance,
    `${what}: ${actual}, not ${expected}`,
  );

test("C, C̄, P, B and Q are those that the reference calculated, after every completion, in both variants", () => {
  let steps = 0;
  for (const { id, tau, gamma, answers, sim, steps: expected } of referenceGroups) {
    const confidences = answers.map(({ logprobs }) =>
      confidenceOf(logprobs, { confidence: "geometric", confidence_tokens: 256 })!
    );
    for (const step of expected) {
      const { l } = step;
      const of = (literal: boolean) =>
        qualityOf(l, confidences.slice(0, l), (i, j) => sim[i]![j]!, { tau, gamma, literal });
      const [pairs, literal] = [of(false), of(true)];
      const what = `${id}, l = ${l}`;
      near(confidences[l - 1], step.C, 1e-7, `${what}: C`);
      near(pairs.cBar, step.C_bar, 1e-7, `${what}: C̄`);
      near(pairs.p, step.P, 1e-7, `${what}: P`);
      near(pairs.b, step.B, 1e-7, `${what}: B`);
      near(pairs.q, step.Q, 1e-7, `${what}: Q`);
      near(literal.p, step.literal.P, 1e-7, `${what}: literal P`);
      near(literal.b, step.literal.B, 1e-7, `${what}: literal B`);
      near(literal.q, step.literal.Q, 1e-7, `${what}: literal Q`);
      steps++;
    }
  }
  assert.ok(steps >= 12, `${steps} steps`);
});

test("the printed algorithm, step by step: with self-pairs, disagreement is rewarded", () => {
  // C̄ = 0.85, τ = 0.7: Q after the first answer, after the second with self-pairs, and with pairs only.
  const table: [similarity: number, one: number, two: number, pairsOnly: number][] = [
    [0.3, 0.697, 0.877, 0.604],
    [0.5, 0.697, 0.83, 0.779],
    [0.7, 0.697, 0.779, 0.922],
    [0.9, 0.697, 0.725, 0.779],
    [1.0, 0.697, 0.697, 0.697],
  ];
  const round = (value: number | undefined) => Math.round(1000 * (value ?? NaN)) / 1000;
  for (const [similarity, ...expected] of table) {
    const q = (count: number, literal: boolean) =>
      round(qualityOf(count, Array(count).fill(0.85), () => similarity, { ...settings, literal }).q);
    assert.deepEqual([q(1, true), q(2, true), q(2, false)], expected);
  }
  assert.equal(qualityOf(1, [0.85], () => 1, settings).q, undefined);
});

test("all quantities are in [0, 1] or unknown, whatever the confidences and similarities", () => {
  const share = fc.oneof(
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.constantFrom(0, 1, 5e-324, 1e-300, 1 - 2 ** -53),
  );
  fc.assert(fc.property(
    fc.array(fc.tuple(share, share), { minLength: 1, maxLength: 6 }),
    share,
    share,
    fc.boolean(),
    (answers, tau, gamma, literal) => {
      const sim = (i: number, j: number) => answers[(i + 7 * j) % answers.length]![1];
      const { cBar, p, b, q } = qualityOf(answers.length, answers.map(([c]) => c), sim, {
        tau,
        gamma,
        literal,
      });
      for (const value of [cBar, p, b, q]) assert.ok(value === undefined || (value >= 0 && value <= 1));
      assert.equal(q === undefined, p === undefined);
    },
  ));
});

test("P is between the lowest and the highest similarity, and the order of the answers does not matter", () => {
  const confidence = fc.double({ min: 0.01, max: 1, noNaN: true });
  const similarity = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(fc.property(
    fc.array(confidence, { minLength: 3, maxLength: 3 }),
    fc.array(similarity, { minLength: 3, maxLength: 3 }),
    (confidences, values) => {
      const table = [[1, values[0]!, values[1]!], [values[0]!, 1, values[2]!], [values[1]!, values[2]!, 1]];
      const { p, q } = qualityOf(3, confidences, (i, j) => table[i]![j]!, settings);
      assert.ok(p! >= Math.min(...values) - 1e-12 && p! <= Math.max(...values) + 1e-12);
      const turned = qualityOf(3, [...confidences].reverse(), (i, j) => table[2 - i]![2 - j]!, settings);
      assert.ok(Math.abs(turned.p! - p!) < 1e-12 && Math.abs(turned.q! - q!) < 1e-12);
    },
  ));
});

test("tiny confidences keep their ratio; confidences of 0 that leave no weight make P unknown", () => {
  assert.equal(qualityOf(2, [1e-300, 1e-300], () => 0.4, settings).p, 0.4);
  const mixed = qualityOf(3, [1e-200, 1e-200, 2e-200], (i) => i === 2 ? 0.8 : 0.2, settings).p!;
  assert.ok(Math.abs(mixed - (0.2 + 4 * 0.8) / 5) < 1e-12);
  assert.equal(qualityOf(2, [0, 0], () => 0.7, settings).q, undefined);
  assert.equal(qualityOf(2, [1, 0], () => 0.7, settings).q, undefined);
});

test("a similarity that is unknown or no number makes Q unknown", () => {
  for (const value of [undefined, NaN, Infinity, -Infinity]) {
    assert.equal(qualityOf(2, [0.9, 0.9], () => value, settings).q, undefined);
  }
  assert.equal(qualityOf(0, [], () => 1, settings).q, undefined);
});

test("a mean similarity that rounds to more than 1 gives no negative B", () => {
  const { p, b, q } = qualityOf(2, [0.9, 0.9], () => 1 + 2 ** -52, { ...settings, tau: 0 });
  assert.deepEqual([p, b, q], [1, 0, 0]);
});

test("without confidences all pairs weigh the same, and Q is B", () => {
  const { cBar, p, b, q } = qualityOf(3, undefined, (i) => i === 2 ? 0.8 : 0.2, settings);
  assert.equal(cBar, undefined);
  assert.ok(Math.abs(p! - 0.6) < 1e-12);
  assert.equal(q, b);
});
