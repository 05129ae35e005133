import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type TransformerSize, writeModel } from "../../../bench/micro/scorer/model.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { EmbeddingModel, type KeyValueCache } from "../../../scorer/onnx/embedding_model.ts";
import { cosine } from "../../../scorer/similarity/similarity.ts";

const size: TransformerSize = {
  layers: 3,
  hidden: 64,
  heads: 4,
  cacheHeads: 2,
  headSize: 32,
  feedForward: 160,
  vocabulary: 512,
  positions: 1024,
};
const runtime = await loadOnnxRuntime();
const ids = Array.from({ length: 700 }, (_, index) => index * 37 % size.vocabulary);

async function withModel(form: "standard" | "fused", use: (model: EmbeddingModel) => Promise<void>) {
  const folder = await mkdtemp(join(tmpdir(), "canopy-model-"));
  const model = await EmbeddingModel.open(runtime, writeModel(folder, size, "features", form), 1);
  try {
    await use(model);
  } finally {
    await model.close();
    await rm(folder, { recursive: true });
  }
}

async function inSteps(model: EmbeddingModel, of: readonly number[], step: number): Promise<Float32Array> {
  let cache: KeyValueCache | undefined;
  const rows: number[] = [];
  for (let at = 0; at < of.length; at += step) {
    const result = await model.step(of.slice(at, at + step), cache, at + step < of.length);
    cache = result.cache;
    rows.push(...result.rows);
  }
  return Float32Array.from(rows);
}

test("an export with fused attention writes its cache in place and gives what one of standard operators gives", async () => {
  const found: Float32Array[] = [];
  for (const form of ["standard", "fused"] as const) {
    await withModel(form, async (model) => {
      assert.deepEqual([model.streams, model.inPlace], [true, form === "fused"]);
      found.push(await inSteps(model, ids, 64));
    });
  }
  // The scales of int8 make much of the last digit.
  const agreement = cosine(found[0]!, found[1]!);
  assert.ok(agreement > 0.999, String(agreement));
});

test("a cache in place grows, and the texts in it know nothing of each other", () =>
  withModel("fused", async (model) => {
    const expected = await inSteps(model, ids, 50);
    const other = [...ids].reverse();
    const caches: (KeyValueCache | undefined)[] = [undefined, undefined];
    const rows: number[] = [];
    for (let at = 0; at < ids.length; at += 50) {
      const more = at + 50 < ids.length;
      for (const [index, text] of [ids, other].entries()) {
        const result = await model.step(text.slice(at, at + 50), caches[index], more);
        caches[index] = result.cache;
        if (index === 0) rows.push(...result.rows);
      }
    }
    assert.deepEqual(Float32Array.from(rows), expected);
  }));
