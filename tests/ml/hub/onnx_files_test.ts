import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { findExport, type OnnxUse } from "../../../ml/hub/onnx_files.ts";
import { weightFiles } from "../../../ml/hub/weight_files.ts";

/** The file that is found in a folder with these, relative to it. */
async function found(names: readonly string[], verb: OnnxUse): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "canopy-export-"));
  try {
    for (const name of names) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), "");
    }
    const files = await findExport({ model: folder, revision: "main" }, {}, { verb, setting: "file" });
    return files?.path.slice(folder.length + 1);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("of several exports the one is taken that a CPU runs fastest: 8 bits, then 4 to generate and 32 to embed", async () => {
  const names = ["onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_q4.onnx"];
  assert.equal(await found([...names, "onnx/model_quantized.onnx"], "generate"), "onnx/model_quantized.onnx");
  assert.equal(await found([...names, "onnx/model_quantized.onnx"], "embed"), "onnx/model_quantized.onnx");
  const unsigned = [...names, "onnx/model_int8.onnx", "onnx/model_quantized.onnx", "onnx/model_uint8.onnx"];
  for (const use of ["generate", "embed"] as const) {
    assert.equal(await found(unsigned, use), "onnx/model_uint8.onnx", "right on every CPU");
  }
  assert.equal(await found(names, "generate"), "onnx/model_q4.onnx");
  assert.equal(await found(names, "embed"), "onnx/model.onnx");
});

test("what is chosen to be fetched is found again, also under a name of its own", async () => {
  for (const onnx of ["dynamic_uint8.onnx", "onnx/dynamic_uint8.onnx", "onnx/model_bnb4.onnx"]) {
    const names = ["tokenizer.json", onnx];
    assert.equal(weightFiles("m", names).at(-1), onnx);
    assert.equal(await found(names, "generate"), onnx);
  }
});

test("a folder with several files of unknown names needs one to be named", async () => {
  await assert.rejects(found(["a.onnx", "onnx/b.onnx"], "embed"), { code: "weights_unavailable" });
});
