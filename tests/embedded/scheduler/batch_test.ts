import assert from "node:assert/strict";
import { test } from "node:test";
import { longestBatched } from "../../../embedded/scheduler/batch.ts";

test("where the cache is copied a sequence in a batch may have 15 % of the weights' bytes, elsewhere any", () => {
  const limit = (growth: "copies" | "appends", batches = true) =>
    longestBatched({ batches, growth, bytesPerToken: 1000 }, 5_000_000);
  assert.deepEqual([limit("copies"), limit("appends"), limit("appends", false)], [750, Infinity, 0]);
});
