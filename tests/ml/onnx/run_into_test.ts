import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeModel, type Value } from "../../../ml/onnx/onnx_file.ts";
import { loadOnnxRuntime, type OnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { bindingWith, OTHER_BINDINGS } from "./bindings.ts";

const value = (name: string): Value => ({ name, type: "float32", shape: ["count"] });
const model = encodeModel({
  inputs: [value("a"), value("b")],
  outputs: [value("sum"), value("product")],
  nodes: [
    { operator: "Add", inputs: ["a", "b"], outputs: ["sum"] },
    { operator: "Mul", inputs: ["a", "b"], outputs: ["product"] },
  ],
});
const runtime = await loadOnnxRuntime();
const session = await runtime.open(model, 1);
const feedsOf = (runtime: OnnxRuntime) => ({
  a: runtime.float32(Float32Array.of(1, 2, 3), [3]),
  b: runtime.float32(Float32Array.of(4, 5, 6), [3]),
});
const feeds = feedsOf(runtime);

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
  assert.deepEqual(session.fallbacks, []);
  const [sum, product] = [new Float32Array(3), new Float32Array(3)];
  const outputs = { sum: runtime.float32(sum, [3]), product: runtime.float32(product, [3]) };
  const assigned = await assignments("product", () => session.runInto(feeds, outputs));
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
  await assert.rejects(session.runInto(feeds, outputs), /shape/);
  const object: Record<string, number> = {};
  object["sum"] = 1;
  assert.deepEqual(object, { sum: 1 });
});

test("when only some outputs are given it runs as ever", async () => {
  const product = new Float32Array(3);
  await session.runInto(feeds, { product: runtime.float32(product, [3]) });
  assert.deepEqual([...product], [4, 10, 18]);
});

for (const [name, run] of Object.entries(OTHER_BINDINGS)) {
  test(`with a binding that ${name} outputs are copied to the given memory, and it is said`, async () => {
    const other = await loadOnnxRuntime(() => Promise.resolve(bindingWith(run)));
    const session = await other.open(model, 1);
    assert.deepEqual(session.fallbacks, ["outputs_copied"]);
    const [sum, product] = [new Float32Array(3), new Float32Array(3)];
    const outputs = { sum: other.float32(sum, [3]), product: other.float32(product, [3]) };
    await session.runInto(feedsOf(other), outputs);
    assert.deepEqual([...sum, ...product], [5, 7, 9, 4, 10, 18]);
    const wrong = { sum: other.float32(new Float32Array(2), [2]) };
    await assert.rejects(session.runInto(feedsOf(other), wrong));
    assert.equal(Object.hasOwn(Object.prototype, "canopy_check_sum"), false);
    await session.release();
  });
}

test("a binding that gives back the tensors it was given needs no copies", async () => {
  const other = await loadOnnxRuntime(() =>
    Promise.resolve(bindingWith(async (session, feeds, outputs) => {
      await OTHER_BINDINGS["writes to the given memory, and copies all the same, without assigning"]!(
        session,
        feeds,
        outputs,
      );
      return Object.freeze({ ...outputs });
    }))
  );
  const session = await other.open(model, 1);
  assert.deepEqual(session.fallbacks, []);
  const sum = new Float32Array(3);
  await session.runInto(feedsOf(other), { sum: other.float32(sum, [3]) });
  assert.deepEqual([...sum], [5, 7, 9]);
});
