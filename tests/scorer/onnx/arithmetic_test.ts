import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CHECK_FILE, checkNumbers, wrongNumbers } from "../../../ml/onnx/check_numbers.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { EmbeddingModel } from "../../../scorer/onnx/embedding_model.ts";
import { modelFolder } from "./onnx_reference.ts";

// What the model in 8 bits gave with exact products, on a CPU with AVX2 (weights made unsigned) and, to the last digit
// kept, on one without (as the file has them); and what it gave with AVX2 and products that saturate.
const recorded = JSON.parse(await readFile(join(modelFolder, "int8_arithmetics.json"), "utf8"));

test("a model in 8 bits gives the numbers of exact products on this CPU, and a check knows those that saturate", async () => {
  const path = join(modelFolder, "model_kv_int8.onnx");
  const folder = await mkdtemp(join(tmpdir(), "canopy-arithmetic-"));
  const model = await EmbeddingModel.open(await loadOnnxRuntime(), path, 1);
  const open = () => Promise.reject(new Error("Not needed"));
  try {
    const found = async (arithmetic: "exact" | "saturating") => {
      await writeFile(join(folder, CHECK_FILE), JSON.stringify(recorded[arithmetic]));
      const check = await checkNumbers({ folder, path, model, texts: [], open });
      assert.ok(check !== undefined);
      return { ...check, wrong: wrongNumbers("model_kv_int8.onnx", check, "scorer.file") };
    };
    const exact = await found("exact");
    assert.equal(exact.wrong, undefined);
    assert.ok(exact.agreement > 0.999, String(exact.agreement));
    const saturating = await found("saturating");
    assert.ok(saturating.agreement < 0.95, String(saturating.agreement));
    assert.match(String(saturating.wrong), /does not give the numbers of model_kv_int8\.onnx/);
  } finally {
    await model.close();
    await rm(folder, { recursive: true });
  }
});
