import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CanopyError } from "../../../base/errors.ts";
import { findModel } from "../../../embedded/model/model_files.ts";
import { weightBytes } from "../../../ml/onnx/weight_bytes.ts";

test("a broken file of a model is named", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-weights-"));
  for (const [name, text] of [["model.onnx", "x"], ["tokenizer.json", "{}"], ["config.json", ""]] as const) {
    await writeFile(join(folder, name), text);
  }
  await assert.rejects(
    findModel({ model: folder, revision: "main" }, {}),
    (error) =>
      CanopyError.is(error) && error.message.startsWith(`Cannot read ${join(folder, "config.json")}: `),
  );
  await rm(folder, { recursive: true });
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
