import assert from "node:assert/strict";
import { test } from "node:test";
import { binomialTail, leastRuns, riskBound, safeRules } from "../../../bench/statistics/risk_control.ts";
import { fc } from "../../properties.ts";

const near = (actual: number, expected: number, by: number) =>
  assert.ok(Math.abs(actual - expected) <= by, `${actual} is not ${expected} ± ${by}`);

test("tails and bounds of the binomial distribution are those of exact sums", () => {
  near(binomialTail(0, 100, 0.02), 0.13261955589475294, 1e-12);
  near(binomialTail(2, 500, 0.02), 0.0025911405128263257, 1e-12);
  near(binomialTail(12, 200, 0.1), 0.032046528796906594, 1e-12);
  assert.equal(binomialTail(7, 7, 0.3), 1);
  near(riskBound(0, 149, 0.95), 0.01990481622068513, 1e-9);
  near(riskBound(3, 200, 0.95), 0.03830970849856936, 1e-9);
  assert.equal(riskBound(5, 5, 0.95), 1);
});

test("so many runs without a loss are needed, and no fewer", () => {
  assert.equal(leastRuns(0.02, 0.95), 149);
  fc.assert(fc.property(
    fc.double({ min: 0.005, max: 0.3, noNaN: true }),
    fc.double({ min: 0.5, max: 0.99, noNaN: true }),
    (risk, confidence) => {
      const runs = leastRuns(risk, confidence);
      assert.ok(riskBound(0, runs, confidence) <= risk + 1e-9);
      assert.ok(runs === 1 || riskBound(0, runs - 1, confidence) > risk - 1e-9);
    },
  ));
});

test("a chain is followed to the first rule that fails, and chains share the confidence", () => {
  const rule = (losses: number) => ({ losses, runs: 400 });
  const chain = [rule(0), rule(2), rule(6), rule(0)];
  assert.deepEqual(safeRules([chain], { risk: 0.02, confidence: 0.95 }), [rule(0), rule(2)]);
  // Three losses are few enough for one chain, and too many for one of three.
  const three = [rule(3)];
  assert.equal(safeRules([three], { risk: 0.02, confidence: 0.95 }).length, 1);
  assert.equal(safeRules([three, three, three], { risk: 0.02, confidence: 0.95 }).length, 0);
});
