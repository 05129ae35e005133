import assert from "node:assert/strict";
import { copyFile, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { writeInt8Onnx, writeSharedOnnx } from "../../../../bench/laboratory/export/write_onnx.ts";
import { Decoder } from "../../../../embedded/model/decoder.ts";
import { loadOnnxRuntime } from "../../../../ml/onnx/runtime.ts";
import { TINY_FOLDER } from "../../../embedded/tiny_model.ts";

// That the graph gives torch's tokens is shown by tests/embedded/scheduler/generator_test.ts, form "fused attention".

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "canopy-write-onnx-"));
  for (const file of ["config.json", "model.safetensors"]) {
    await copyFile(join(TINY_FOLDER, file), join(folder, file));
  }
});
after(() => rm(folder, { recursive: true }));

test("a graph that shares the weights of model.safetensors is some kB, and that of 8 bits computes nearly the same", async () => {
  const shared = await writeSharedOnnx(folder, "logits");
  const rounded = await writeInt8Onnx(folder, "logits");
  assert.ok((await stat(shared)).size < 20_000);
  const weights = (await stat(join(folder, "model.safetensors"))).size;
  assert.ok((await stat(rounded)).size < 0.6 * weights);
  const runtime = await loadOnnxRuntime();
  const one = await Decoder.open(runtime, shared, 1);
  const other = await Decoder.open(runtime, rounded, 1);
  try {
    assert.equal(other.arithmetic.products, "none", "nothing is multiplied in 8 bits");
    const ids = [5, 17, 300, 1_200];
    const [exact, near] = [await one.numbersAfter(ids), await other.numbersAfter(ids)];
    let [difference, size] = [0, 0];
    for (const [id, logit] of exact.entries()) {
      difference += (near[id]! - logit) ** 2;
      size += logit ** 2;
    }
    assert.ok(difference > 0 && difference < size / 100, `${difference} of ${size}`);
  } finally {
    await one.close();
    await other.close();
  }
});

test("what is no Qwen3, and weights that are not there, are refused with what is wrong", async () => {
  const config = await readFile(join(folder, "config.json"), "utf8");
  await writeFile(
    join(folder, "config.json"),
    JSON.stringify({ ...JSON.parse(config), model_type: "llama" }),
  );
  await assert.rejects(writeSharedOnnx(folder, "logits"), { code: "unsupported_config" });
  await writeFile(
    join(folder, "config.json"),
    JSON.stringify({ ...JSON.parse(config), num_hidden_layers: 3 }),
  );
  await assert.rejects(writeSharedOnnx(folder, "logits"), /its weights have no layers\.2/);
});
