import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseTopology, costFigure } from "../../../../bench/experiments/topology/choice.ts";
import { dominates, paretoFront } from "../../../../bench/experiments/topology/front.ts";
import { fc, often } from "../../../properties.ts";

// Few values, so that many are equal.
const points = fc.array(
  fc.record({ cost: fc.integer({ min: 1, max: 6 }), right: fc.integer({ min: 0, max: 6 }) }),
);

test("no member of a front is dominated, and every other point is dominated by a member", () => {
  fc.assert(
    fc.property(points, (all) => {
      const front = paretoFront(all);
      for (const member of front) assert.ok(!all.some((other) => dominates(other, member)));
      for (const point of all) {
        assert.ok(front.includes(point) || front.some((member) => dominates(member, point)));
      }
      assert.ok(front.every(({ cost }, at) => at === 0 || cost >= front[at - 1]!.cost));
    }),
    { numRuns: often(200) },
  );
});

/** A candidate with these right answers, as `+` and `-`, at this latency. */
function tried(answers: string, latencyMs: number, tokens = 100) {
  return {
    answers,
    outcomes: [...answers].map((sign) => ({ right: sign === "+", latencyMs, tokens })),
  };
}

test("of the front within the budget, the cheapest that is as right as the best one, as far as can be told, is chosen", () => {
  const small = tried("++++----++++----", 10, 400);
  const middle = tried("+++++++++++++++-", 20);
  const large = tried("++++++++++++++++", 90, 50);
  const all = [large, small, middle];
  assert.equal(chooseTopology(all, {}), middle);
  assert.equal(chooseTopology([large, small], {}), large);
  assert.equal(chooseTopology(all, { latencyMs: 15 }), small);
  assert.equal(chooseTopology(all, { tokens: 60 }), large);
  assert.equal(chooseTopology(all, { latencyMs: 15, tokens: 60 }), undefined);
  assert.equal(chooseTopology([large, tried("++++++++++++++++", 80)], {})?.outcomes[0]?.latencyMs, 80);
  assert.deepEqual(
    [costFigure({}), costFigure({ tokens: 1 }), costFigure({ tokens: 1, latencyMs: 1 })],
    ["latencyMs", "tokens", "latencyMs"],
  );
});
