import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { readModelProducts } from "../../../ml/onnx/model_products.ts";
import { type Constant, encodeModel } from "../../../ml/onnx/onnx_file.ts";
import { PRODUCTS_MODEL } from "../../../ml/onnx/products.ts";
import { bytesField, numberField } from "../../../ml/onnx/protobuf.ts";

const fixtures = fileURLToPath(new URL("../../fixtures/", import.meta.url));

function found(model: string | Uint8Array): { weights: string[]; scaledPerCall: boolean } {
  const { weights, scaledPerCall } = readModelProducts(model);
  return { weights: [...weights], scaledPerCall };
}

test("a file tells whether it multiplies in 8 bits, with signed weights, and with one scale per call", () => {
  const none = { weights: [], scaledPerCall: false };
  assert.deepEqual(found(join(fixtures, "tiny-qwen3-embedding", "model_kv_int8.onnx")), {
    weights: ["signed"],
    scaledPerCall: true,
  });
  assert.deepEqual(found(join(fixtures, "tiny-qwen3-embedding", "model_kv_fp16.onnx")), none);
  assert.deepEqual(found(join(fixtures, "tiny-qwen3-onnx", "model.onnx")), none);
  assert.deepEqual(found(PRODUCTS_MODEL), { weights: ["signed"], scaledPerCall: true });
});

/** A product whose weights are of some type; `weights` are as large as is wished. */
function product(type: Constant["type"] | undefined, bytes = 1): Uint8Array {
  const data = new Uint8Array(bytes);
  return encodeModel({
    inputs: [],
    outputs: [],
    nodes: [
      { operator: "MatMulInteger", inputs: ["rows", "weights"], outputs: ["sums"] },
    ],
    constants: type === undefined ? [] : [{ name: "weights", type, shape: [data.length], data }],
  });
}

test("weights that are not in the file, or not of 8 bits as far as it tells, count as signed", () => {
  for (const type of ["int8", "int32", undefined] as const) {
    assert.deepEqual(found(product(type)), { weights: ["signed"], scaledPerCall: false });
  }
  assert.deepEqual(found(product("uint8")), { weights: ["unsigned"], scaledPerCall: false });
});

test("branches of a file are read too: exports with and without a cache in one", () => {
  const graph = (...fields: Uint8Array[]) => bytesField(7, fields);
  const node = bytesField(1, [bytesField(1, "x"), bytesField(1, "w"), bytesField(4, "MatMulInteger")]);
  const attribute = bytesField(5, [bytesField(1, "then_branch"), bytesField(6, [node]), numberField(20, 5)]);
  const constant = bytesField(5, [numberField(2, 2), bytesField(8, "w"), bytesField(9, new Uint8Array(3))]);
  const model = graph(bytesField(1, [bytesField(4, "If"), attribute]), constant);
  assert.deepEqual(found(model), { weights: ["unsigned"], scaledPerCall: false });
});

test("weights are stepped over, however large; what is no ONNX file is refused", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-products-"));
  const path = join(folder, "model.onnx");
  try {
    const model = product("uint8", 3_000_000);
    await writeFile(path, model);
    assert.deepEqual(found(path), { weights: ["unsigned"], scaledPerCall: false });
    await writeFile(path, model.subarray(0, 60));
    assert.throws(() => readModelProducts(path), TypeError);
    const page = await readFile(join(fixtures, "tiny-qwen3", "config.json"));
    assert.throws(() => readModelProducts(page), TypeError);
  } finally {
    await rm(folder, { recursive: true });
  }
});
