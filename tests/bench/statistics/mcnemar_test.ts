import assert from "node:assert/strict";
import { test } from "node:test";
import { mcnemarProbability, signFlipProbability } from "../../../bench/statistics/statistics.ts";
import { fc } from "../../properties.ts";

test("McNemar's test is the two-sided binomial one, from no difference to very many questions", () => {
  assert.equal(mcnemarProbability(0, 0), 1);
  assert.equal(mcnemarProbability(3, 3), 1);
  assert.ok(Math.abs(mcnemarProbability(5, 0) - 2 / 32) < 1e-12);
  assert.ok(Math.abs(mcnemarProbability(1, 5) - 2 * 7 / 64) < 1e-12);
  assert.equal(mcnemarProbability(8, 2), mcnemarProbability(2, 8));
  const many = mcnemarProbability(1_100, 1_000);
  // Normal with continuity correction: z = 99 / √2100.
  assert.ok(Math.abs(many - 0.0307) < 0.0005, String(many));
});

test("the sign-flip test counts all signs that take the sum as far, and is McNemar's where questions have one answer each", () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: -5, max: 5 }), { maxLength: 10 }), (differences) => {
    const sums = differences.reduce(
      (all: readonly number[], one) => all.flatMap((sum) => [sum + one, sum - one]),
      [0],
    );
    const sum = Math.abs(differences.reduce((all, one) => all + one, 0));
    const far = sums.filter((other) => Math.abs(other) >= sum).length / sums.length;
    assert.ok(Math.abs(signFlipProbability(differences) - far) < 1e-12, `${differences}`);
  }));
  fc.assert(fc.property(fc.nat(300), fc.nat(300), (gained, lost) => {
    const differences = [...Array<number>(gained).fill(1), ...Array<number>(lost).fill(-1), 0];
    const p = mcnemarProbability(gained, lost);
    assert.ok(Math.abs(signFlipProbability(differences) - p) < 1e-9 * p, `${gained} ${lost}`);
  }));
});
