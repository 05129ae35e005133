import assert from "node:assert/strict";
import { test } from "node:test";
import { type HedgeFigures, LEARNING, measureHedge } from "../../bench/experiments/hedge.ts";

const common = {
  policy: "round_robin",
  questions: LEARNING + 20,
  clients: 1,
  seed: "hedge",
  signal: new AbortController().signal,
} as const;

const scenes = [
  {
    straggling: "now and then",
    hedges: [{ after: "p95", max_share: 0.05 }, { after: "p95", max_share: 0.1 }],
  },
  { straggling: "always", hedges: [{ after: "p70", max_share: 0.4 }] },
] as const;

const started = ({ second: { won, lost, failed } }: HedgeFigures) => won + lost + failed;

for (const { straggling, hedges } of scenes) {
  test(`with a worker that is slow ${straggling} hedged runs say the same, and are sooner`, async () => {
    const without = await measureHedge({ ...common, straggling, hedge: undefined });
    assert.deepEqual([started(without), without.wastedShare], [0, 0]);
    for (const hedge of hedges) {
      const hedged = await measureHedge({ ...common, straggling, hedge });
      assert.deepEqual(hedged.texts, without.texts);
      assert.ok(hedged.second.won > 0 && hedged.second.failed === 0, JSON.stringify(hedged.second));
      // Of those before, a few may have been saved up.
      assert.ok(started(hedged) <= hedge.max_share * hedged.agents + 4, JSON.stringify(hedged.second));
      assert.ok(hedged.wastedShare > 0 && hedged.wastedShare < hedge.max_share);
      assert.ok(hedged.e2eMs.mean < without.e2eMs.mean);
    }
  });
}

test("under load the least busy worker is seldom the one that is always slow", async () => {
  const slow = { ...common, straggling: "always", clients: 8, hedge: undefined } as const;
  const [inTurn, idlest] = [
    await measureHedge(slow),
    await measureHedge({ ...slow, policy: "least_load" }),
  ];
  assert.ok(idlest.perWorker[0]! < 0.7 * inTurn.perWorker[0]!, idlest.perWorker.join());
  assert.ok(idlest.e2eMs.mean < 0.9 * inTurn.e2eMs.mean);
});
