import assert from "node:assert/strict";
import { test } from "node:test";
import { mcnemarProbability } from "../../../bench/statistics/statistics.ts";

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
