import assert from "node:assert/strict";
import { test } from "node:test";
import { workerGroups } from "../../../page/state/worker_view.ts";

const worker = (id: string, model: string, worker_type = "regular") => ({
  id,
  model,
  worker_type,
  engine: "sglang",
});

test("both halves of pairs are one group, prefill servers first; other workers stand alone, by model", () => {
  const workers = [
    worker("a.w1", "a"),
    worker("b.d1", "b", "decode"),
    worker("c.p1", "c", "prefill"),
    worker("c.d1", "c", "decode"),
    worker("c.d2", "c", "decode"),
    worker("b.p1", "b", "prefill"),
    worker("a.w2", "a"),
    worker("d.d1", "d", "decode"),
    { url: "http://new:1", worker_type: "prefill" },
  ];
  const groups = workerGroups({ workers }).map(({ model, pairing, workers }) => [
    model,
    pairing,
    ...workers.map(({ id }) => id),
  ]);
  assert.deepEqual(groups, [
    ["a", "", "a.w1"],
    ["a", "", "a.w2"],
    ["b", "a pair", "b.p1", "b.d1"],
    ["c", "1 prefill, 2 decode, any with any", "c.p1", "c.d1", "c.d2"],
    ["d", "0 prefill, 1 decode", "d.d1"],
    ["", "", "http://new:1"],
  ]);
});
