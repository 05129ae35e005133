import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeModel, type Value } from "../../../ml/onnx/onnx_file.ts";
import { runInto } from "../../../ml/onnx/run_into.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";

const runtime = await loadOnnxRuntime();
const value = (name: string): Value => ({ name, type: "float32", shape: ["count"] });
const session = await runtime.open(
  encodeModel({
    inputs: [value("a"), value("b")],
    outputs: [value("sum"), value("product")],
    nodes: [
      { operator: "Add", inputs: ["a", "b"], outputs: ["sum"] },
      { operator: "Mul", inputs: ["a", "b"], outputs: ["product"] },
    ],
  }),
  1,
);
const feeds = {
  a: runtime.float32(Float32Array.of(1, 2, 3), [3]),
  b: runtime.float32(Float32Array.of(4, 5, 6), [3]),
};

/** How often something is assigned to a plain object under a name, while `work` goes on. */
async function assignments(name: string, work: () => Promise<void>): Promise<number> {
  let count = 0;
  Reflect.defineProperty(Object.prototype, name, {
    configurable: true,
    set(this: object, assigned: unknown) {
      count++;
      Reflect.defineProperty(this, name, { value: assigned, configurable: true, enumerable: true });
    },
  });
  await work().finally(() => Reflect.deleteProperty(Object.prototype, name));
  return count;
}

test("outputs are written to the memory that was given, and not copied", async () => {
  const [sum, product] = [new Float32Array(3), new Float32Array(3)];
  const outputs = { sum: runtime.float32(sum, [3]), product: runtime.float32(product, [3]) };
  const assigned = await assignments("product", () => runInto(session, feeds, outputs));
  assert.deepEqual([...sum, ...product], [5, 7, 9, 4, 10, 18]);
  // The call's own preparation; the binding would be the second one.
  assert.equal(assigned, 1);
  assert.deepEqual(Reflect.ownKeys(Object.prototype).filter((name) => name === "sum"), []);
});

test("what goes wrong is thrown, and nothing is left behind", async () => {
  const outputs = {
    sum: runtime.float32(new Float32Array(2), [2]),
    product: runtime.float32(new Float32Array(3), [3]),
  };
  await assert.rejects(runInto(session, feeds, outputs), /shape/);
  const object: Record<string, number> = {};
  object["sum"] = 1;
  assert.deepEqual(object, { sum: 1 });
});

test("when only some outputs are given it runs as ever", async () => {
  const product = new Float32Array(3);
  await runInto(session, feeds, { product: runtime.float32(product, [3]) });
  assert.deepEqual([...product], [4, 10, 18]);
});
