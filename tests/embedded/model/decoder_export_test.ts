import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import { test } from "node:test";
import { CanopyError } from "../../../base/errors.ts";
import { KeyValuePool, type KeyValues } from "../../../embedded/cache/key_values.ts";
import { Decoder } from "../../../embedded/model/decoder.ts";
import {
  type Constant,
  encodeModel,
  type Node,
  type OnnxGraph,
  type Value,
} from "../../../ml/onnx/onnx_file.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { halfToNumber } from "../../../ml/onnx/tensor_numbers.ts";
import { tinyPath } from "../tiny.ts";
import { writeTinyFused } from "../tiny_fused.ts";

const runtime = await loadOnnxRuntime();
const VOCABULARY = 8;

interface Form {
  /** Type of the cache and of the logits. */
  readonly type: "float32" | "float16";
  readonly integers: "int64" | "int32";
  /** Logits of the last token only, as some exports have it. */
  readonly lastOnly?: boolean;
  readonly positions?: boolean;
  readonly more?: readonly Value[];
}

/**
 * A decoder that can be checked by hand: a token's key is its row of a table, plus a tenth of its position where that
 * is fed; its logits are the sum of all keys up to it, or, with `lastOnly`, those of the last one.
 */
function toyDecoder({ type, integers, lastOnly = false, positions = false, more = [] }: Form): Uint8Array {
  const elements = { float32: 1, float16: 10 }[type];
  const cache = (tokens: string): Value["shape"] => ["batch", 1, tokens, VOCABULARY];
  const node = (
    operator: string,
    inputs: readonly string[],
    output: string,
    attributes: Node["attributes"] = {},
  ): Node => ({ operator, inputs, outputs: [output], attributes });
  const numbers = (name: string, values: readonly number[], shape: readonly number[]): Constant => ({
    name,
    type: "float32",
    shape,
    data: new Uint8Array(Float32Array.from(values).buffer),
  });
  const whole = (name: string, values: readonly number[]): Constant => ({
    name,
    type: "int64",
    shape: [values.length],
    data: new Uint8Array(BigInt64Array.from(values, BigInt).buffer),
  });
  const graph: OnnxGraph = {
    inputs: [
      { name: "input_ids", type: integers, shape: ["batch", "tokens"] },
      ...(positions ? [{ name: "position_ids", type: integers, shape: ["batch", "tokens"] } as const] : []),
      ...more,
      { name: "past_key_values.0.key", type, shape: cache("past") },
      { name: "past_key_values.0.value", type, shape: cache("past") },
    ],
    outputs: [
      { name: "logits", type, shape: ["batch", lastOnly ? 1 : "tokens", VOCABULARY] },
      { name: "present.0.key", type, shape: cache("all") },
      { name: "present.0.value", type, shape: cache("all") },
    ],
    nodes: [
      node("Gather", ["table", "input_ids"], "rows"),
      ...(positions
        ? [
          node("Cast", ["position_ids"], "places", { to: 1 }),
          node("Unsqueeze", ["places", "two"], "column"),
          node("Mul", ["column", "tenth"], "shift"),
          node("Add", ["rows", "shift"], "shifted"),
        ]
        : [node("Identity", ["rows"], "shifted")]),
      node("Unsqueeze", ["shifted", "one"], "by_head"),
      node("Cast", ["by_head"], "new", { to: elements }),
      node("Concat", ["past_key_values.0.key", "new"], "present.0.key", { axis: 2 }),
      node("Concat", ["past_key_values.0.value", "new"], "present.0.value", { axis: 2 }),
      node("Cast", ["present.0.key"], "keys", { to: 1 }),
      // Sums up to each token; the last ones are those of the new tokens.
      node("CumSum", ["keys", "axis"], "sums"),
      node("Squeeze", ["sums", "one"], "flat"),
      node("Shape", ["input_ids"], "shape"),
      node("Gather", ["shape", "one"], "count"),
      node("Neg", [lastOnly ? "one" : "count"], "from"),
      node("Slice", ["flat", "from", "end", "one"], "last"),
      node("Cast", ["last"], "logits", { to: elements }),
    ],
    constants: [
      numbers("table", Array.from({ length: VOCABULARY ** 2 }, (_, at) => table(at)), [
        VOCABULARY,
        VOCABULARY,
      ]),
      numbers("tenth", [0.125], []),
      whole("one", [1]),
      whole("two", [2]),
      whole("axis", [2]),
      whole("end", [1_000_000]),
    ],
  };
  return encodeModel(graph);
}

/** Exact in 16 bits. */
function table(at: number): number {
  return (at * 5 % 16) / 8;
}

function expectedLogits(ids: readonly number[], positions: boolean): number[] {
  return Array.from(
    { length: VOCABULARY },
    (_, column) =>
      ids.reduce(
        (sum, id, place) => sum + table(id * VOCABULARY + column) + (positions ? place * 0.125 : 0),
        0,
      ),
  );
}

async function open(form: Form): Promise<Decoder> {
  const session = await runtime.open(toyDecoder(form), 1);
  return await Decoder.open({ ...runtime, open: () => Promise.resolve(session) }, "toy.onnx", 1);
}

const forms: Form[] = [
  { type: "float32", integers: "int64" },
  { type: "float32", integers: "int32", positions: true },
  { type: "float16", integers: "int64", positions: true },
  { type: "float16", integers: "int64", lastOnly: true },
  {
    type: "float32",
    integers: "int64",
    lastOnly: true,
    more: [
      { name: "attention_mask", type: "int64", shape: ["batch", "all"] },
      { name: "num_logits_to_keep", type: "int64", shape: [] },
    ],
  },
];

for (const form of forms) {
  test(`a decoder is fed and read as its metadata says: ${JSON.stringify(form)}`, async () => {
    const decoder = await open(form);
    assert.equal(decoder.vocabSize, VOCABULARY);
    assert.equal(decoder.bytesPerToken, 2 * VOCABULARY * (form.type === "float32" ? 4 : 2));
    // An operator that joins what was and what is new.
    assert.equal(decoder.growth, "copies");
    const pool = new KeyValuePool(decoder.export.cache, decoder.growth, 1000);
    const ids = [1, 5, 3, 7, 2, 2, 0];
    let past: KeyValues | undefined;
    for (const [from, to] of [[0, 3], [3, 4], [4, 7]] as const) {
      const room = pool.extend(past, from, to - from, 0)!;
      const logits = await decoder.step(ids.slice(from, to), room);
      assert.deepEqual([...logits], expectedLogits(ids.slice(0, to), form.positions === true));
      assert.equal(room.into.tokens, to);
      past = room.into;
    }
    // What branches off starts from a copy.
    const branch = pool.branch(past!, 2)!;
    const logits = await decoder.step([6], pool.extend(branch, 2, 1, 0)!);
    assert.deepEqual([...logits], expectedLogits([1, 5, 6], form.positions === true));
    const [key] = past!.tensors;
    assert.equal(key instanceof Float32Array ? key[0] : halfToNumber(key![0]!), table(VOCABULARY));
    await decoder.close();
  });
}

test("fused attention is told by its appending to the cache; exports that know the batch and the mask are told", async () => {
  const fused = await writeTinyFused();
  for (const [path, growth] of [[tinyPath, "copies"], [fused, "appends"]] as const) {
    const decoder = await Decoder.open(runtime, path, 1);
    assert.deepEqual([decoder.growth, decoder.batches], [growth, true]);
    await decoder.close();
  }
  await rm(dirname(fused), { recursive: true });
  // It has no mask; padding would be summed up.
  const decoder = await open(forms[1]!);
  assert.equal(decoder.batches, false);
  await decoder.close();
});

test("exports that cannot generate are refused, with the reason", async () => {
  const refused = async (change: (form: Form) => Form, why: RegExp) => {
    await assert.rejects(open(change(forms[0]!)), (error) => {
      assert.ok(CanopyError.is(error));
      assert.deepEqual([error.code, error.status], ["unsupported_export", 500]);
      assert.match(error.message, why);
      return true;
    });
  };
  const unknown: Value = { name: "pixel_values", type: "float32", shape: ["batch", 3] };
  await refused((form) => ({ ...form, more: [unknown] }), /it wants `pixel_values`, which is not known here/);
  const wrong: Value = { name: "attention_mask", type: "float32", shape: ["batch", "all"] };
  await refused((form) => ({ ...form, more: [wrong] }), /`attention_mask` is float32/);
});

test("a model of embeddings, and one without a cache, are told apart from decoders", async () => {
  const constant = (name: string, shape: readonly number[]): Constant => ({
    name: `${name}_constant`,
    type: "float32",
    shape,
    data: new Uint8Array(4 * shape.reduce((product, size) => product * size, 1)),
  });
  const read = async (output: string, withCache: boolean) => {
    const ids: Value = { name: "input_ids", type: "int64", shape: ["b", "n"] };
    const shape = ["b", 1, "past", 4];
    const graph: OnnxGraph = {
      inputs: withCache ? [ids, { name: "past_key_values.0.key", type: "float32", shape }] : [ids],
      outputs: [
        { name: output, type: "float32", shape: ["b", "n", 4] },
        ...(withCache ? [{ name: "present.0.key", type: "float32", shape } as const] : []),
      ],
      nodes: [output, ...(withCache ? ["present.0.key"] : [])].map((name) => ({
        operator: "Identity",
        inputs: [`${name}_constant`],
        outputs: [name],
      })),
      constants: [constant(output, [1, 1, 4]), constant("present.0.key", [1, 1, 1, 4])],
    };
    const session = await runtime.open(encodeModel(graph), 1);
    return await Decoder.open({ ...runtime, open: () => Promise.resolve(session) }, "it.onnx", 1);
  };
  await assert.rejects(read("last_hidden_state", true), /it gives no `logits`/);
  await assert.rejects(read("logits", false), /it has no cache/);
});
