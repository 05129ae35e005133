import assert from "node:assert/strict";
import { test } from "node:test";
import { criticalPath } from "../../../cli/demo/critical_path.ts";
import { recordOf, TREE } from "../run_records.ts";

const done = (startedAtMs: number, firstTokenAtMs: number, endedAtMs: number, tokens: number) => ({
  state: "done" as const,
  startedAtMs,
  firstTokenAtMs,
  endedAtMs,
  tokens,
});

test("the critical path goes from the root to the precursor that ended last, and its steps add up", () => {
  const record = recordOf(TREE, {
    "l1.c1.a1": done(0, 10, 100, 5),
    "l1.c1.a2": done(0, 10, 300, 6),
    "l1.c2.a1": done(0, 10, 120, 7),
    "l1.c2.a2": done(0, 20, 200, 8),
    // The second aggregator starts earlier and ends later.
    "l2.c1.a1": done(300, 310, 500, 9),
    "l2.c1.a2": done(200, 230, 600, 10),
    "l3.c1.a1": done(600, 650, 1000, 11),
  }, 1000);
  assert.deepEqual(criticalPath(TREE, record), [
    { agent: "l1.c2.a2", model: "32b", durationMs: 200, decodeMs: 180, completionTokens: 8 },
    { agent: "l2.c1.a2", model: "32b", durationMs: 400, decodeMs: 370, completionTokens: 10 },
    { agent: "l3.c1.a1", model: "32b", durationMs: 400, decodeMs: 350, completionTokens: 11 },
  ]);
});

test("a run whose root has not ended has no critical path", () => {
  assert.deepEqual(criticalPath(TREE, recordOf(TREE, { "l1.c1.a1": done(0, 1, 2, 3) })), []);
});

test("agents that never began are not on the critical path", () => {
  const record = recordOf(TREE, { "l3.c1.a1": done(5, 6, 10, 1) }, 10);
  assert.deepEqual(criticalPath(TREE, record).map((step) => [step.agent, step.durationMs]), [[
    "l3.c1.a1",
    10,
  ]]);
});
