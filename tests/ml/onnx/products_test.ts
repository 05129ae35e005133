import assert from "node:assert/strict";
import { test } from "node:test";
import * as onnxruntime from "onnxruntime-node";
import type { InferenceSession } from "onnxruntime-node";
import { type Products, PRODUCTS_MODEL, productsOf } from "../../../ml/onnx/products.ts";
import { loadOnnxRuntime, type OnnxBinding } from "../../../ml/onnx/runtime.ts";

test("signed weights give exact products on this CPU, whatever it is, and it is said in which way", async () => {
  const runtime = await loadOnnxRuntime();
  // With VNNI, and on CPUs without AVX2, as they are; with AVX2 alone once they are unsigned.
  assert.match(runtime.arithmetic.products, /^(exact|made_unsigned)$/);
  assert.ok(runtime.arithmetic.cpu.length > 3);
  const session = await runtime.open(PRODUCTS_MODEL, 1);
  assert.deepEqual([session.arithmetic, session.fallbacks, session.scaledPerCall], [
    runtime.arithmetic,
    [],
    true,
  ]);
  const rows = Float32Array.from({ length: 16 }, (_, index) => index < 8 ? 1 : index % 2);
  const { sums } = await session.run({ rows: runtime.float32(rows, [2, 8]) });
  assert.deepEqual([...sums!.data as Int32Array], [8 * 255 * 127, 4 * 255 * 127]);
  await session.release();
});

/** ONNX Runtime on a CPU that computes the sum of products as `sum` says, by whether weights are made unsigned first. */
function onCpu(sum: (unsigned: boolean) => number, refuses = false): Promise<OnnxBinding> {
  const { env, InferenceSession, Tensor } = onnxruntime;
  const create = async (model: string | Uint8Array, options: InferenceSession.SessionOptions = {}) => {
    const unsigned = JSON.stringify(options.extra).includes('"x64quantprecision":"1"');
    if (refuses && unsigned && model !== PRODUCTS_MODEL && model.length === PRODUCTS_MODEL.length) {
      throw new Error("Cannot replace the existing tensor b_zero");
    }
    const session = await InferenceSession.create(model as Uint8Array, options);
    if (model !== PRODUCTS_MODEL) return session;
    const run = () => Promise.resolve({ sums: new Tensor("int32", Int32Array.of(sum(unsigned)), [1, 1]) });
    return Object.assign(Object.create(session), { run, release: () => session.release() });
  };
  return Promise.resolve({ env, Tensor, InferenceSession: { create } });
}

const exact = 8 * 255 * 127;
const saturated = 4 * 32767;

test("what the CPU does is found out by a try, before any model is opened", async () => {
  const found = async (sum: (unsigned: boolean) => number) =>
    (await loadOnnxRuntime(() => onCpu(sum))).arithmetic.products;
  assert.equal(await found(() => exact), "exact");
  assert.equal(await found((unsigned) => unsigned ? exact : saturated), "made_unsigned");
  assert.equal(await found(() => saturated), "saturating");
});

test("where weights cannot be made unsigned it is told on CPUs whose products saturate, and only there", async () => {
  // A copy, which is opened like any model.
  const model = PRODUCTS_MODEL.slice();
  for (
    const [sum, products, fallbacks] of [
      [() => exact, "exact", []],
      [(unsigned: boolean) => unsigned ? exact : saturated, "saturating", ["products_as_written"]],
      [() => saturated, "saturating", ["products_as_written"]],
    ] as const
  ) {
    const runtime = await loadOnnxRuntime(() => onCpu(sum, true));
    const session = await runtime.open(model, 1);
    assert.deepEqual([session.arithmetic.products, session.fallbacks], [products, fallbacks]);
    await session.release();
  }
});

test("models of floats, and of unsigned weights, are right on every CPU", () => {
  const of = (...weights: ("signed" | "unsigned")[]) => ({ weights: new Set(weights), scaledPerCall: false });
  for (const cpu of ["exact", "made_unsigned", "saturating"] satisfies Products[]) {
    assert.equal(productsOf(of(), "exact", cpu), "none");
    assert.equal(productsOf(of("unsigned"), "as_written", cpu), "exact");
    assert.equal(productsOf(of("signed", "unsigned"), "exact", cpu), cpu);
  }
  assert.equal(productsOf(of("signed"), "as_written", "made_unsigned"), "saturating");
});
