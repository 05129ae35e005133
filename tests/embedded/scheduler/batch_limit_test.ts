import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { longestBatched, weightBytes } from "../../../embedded/scheduler/batch_limit.ts";

test("where the cache is copied a sequence in a batch may have 15 % of the weights' bytes, elsewhere any", () => {
  const limit = (growth: "copies" | "appends", batches = true) =>
    longestBatched({ batches, growth, bytesPerToken: 1000 }, 5_000_000);
  assert.deepEqual([limit("copies"), limit("appends"), limit("appends", false)], [750, Infinity, 0]);
});

test("a model's bytes are its own and those of the files with its weights, not those of others beside it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-weights-"));
  const sizes = {
    "model.onnx": 10,
    "model.onnx_data": 200,
    "model.onnx_data_1": 3000,
    "model_q4.onnx": 40_000,
  };
  for (const [name, size] of Object.entries(sizes)) {
    await writeFile(join(folder, name), new Uint8Array(size));
  }
  assert.equal(await weightBytes(join(folder, "model.onnx")), 3210);
  await rm(folder, { recursive: true });
});
