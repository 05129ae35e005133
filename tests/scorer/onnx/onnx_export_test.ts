import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { encodeModel, type OnnxGraph, type Value } from "../../../ml/onnx/onnx_file.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { halfToNumber } from "../../../ml/onnx/tensor_numbers.ts";
import { EmbeddingTokenizer } from "../../../scorer/embedders/embedding_tokenizer.ts";
import { findOnnxFiles } from "../../../scorer/embedders/onnx_files.ts";
import { readExport } from "../../../scorer/onnx/embedding_export.ts";
import { embed, modelFolder, openEmbedder } from "./onnx_reference.ts";

const runtime = await loadOnnxRuntime();

const ids: Value = { name: "input_ids", type: "int64", shape: ["batch", "tokens"] };
const hidden: Value = { name: "last_hidden_state", type: "float32", shape: ["batch", "tokens", 8] };

const bytesOf = { float32: 4, uint8: 1, int8: 1, int32: 4, int64: 8, float16: 2, bfloat16: 2 };

/** A graph with these inputs and outputs, each output cut from a constant: it is opened, never run. */
async function read(inputs: readonly Value[], outputs: readonly Value[]) {
  const graph: OnnxGraph = {
    inputs,
    outputs,
    nodes: outputs.map(({ name }) => ({
      operator: "Identity",
      inputs: [`${name}_constant`],
      outputs: [name],
    })),
    constants: outputs.map(({ name, type, shape }) => {
      const sizes = shape.map((size) => typeof size === "number" ? size : 1);
      const bytes = sizes.reduce((product, size) => product * size, 1) * bytesOf[type];
      return { name: `${name}_constant`, type, shape: sizes, data: new Uint8Array(bytes) };
    }),
  };
  return readExport("it.onnx", await runtime.open(encodeModel(graph), 1));
}

test("exports in many forms are read from their metadata", async () => {
  const slot = (name: string, size: number | string): Value => ({
    name,
    type: "float16",
    shape: ["b", 2, size, 4],
  });
  const found = await read(
    [
      { ...ids, type: "int32" },
      { name: "attention_mask", type: "int64", shape: ["b", "all"] },
      { name: "token_type_ids", type: "int64", shape: ["b", "n"] },
      { name: "num_logits_to_keep", type: "int64", shape: [] },
      slot("past_key_values.0.key", "past"),
      slot("past_key_values.0.value", "past"),
    ],
    [{ ...hidden, name: "hidden_states" }, slot("present.0.key", 1), slot("present.0.value", 1)],
  );
  assert.deepEqual(found, {
    ids: { name: "input_ids", type: "int32" },
    mask: { name: "attention_mask", type: "int64" },
    positions: undefined,
    tokenTypes: { name: "token_type_ids", type: "int64" },
    useCache: undefined,
    logitsToKeep: { name: "num_logits_to_keep", type: "int64", shape: [] },
    cache: ["key", "value"].map((part) => ({
      input: `past_key_values.0.${part}`,
      output: `present.0.${part}`,
      type: "float16",
      heads: 2,
      headDimensions: 4,
    })),
    hidden: { name: "hidden_states", type: "float32" },
  });
});

test("exports that cannot be fed or give no features are refused, saying why", async () => {
  const logits: Value = { name: "logits", type: "float32", shape: ["b", "n", 16] };
  const pooled: Value = { name: "sentence_embedding", type: "float32", shape: ["b", 8] };
  const past: Value = { name: "past_key_values.0.key", type: "float32", shape: ["b", 2, "p", 4] };
  const refused: readonly [readonly Value[], readonly Value[], RegExp][] = [
    [[ids], [logits], /it\.onnx: it gives `logits`, but no row of features per token .*feature extraction/],
    [[ids], [pooled], /gives `sentence_embedding`/],
    [
      [ids, { name: "pixel_values", type: "float32", shape: [1] }],
      [hidden],
      /wants `pixel_values`, which is not known/,
    ],
    [[{ ...ids, name: "tokens" }], [hidden], /wants `tokens`/],
    [[], [hidden], /no input `input_ids`/],
    [[{ ...ids, type: "float32" }], [hidden], /`input_ids` is float32/],
    [[ids], [{ ...hidden, type: "int64", shape: [1, 1, 1] }], /`last_hidden_state` is int64/],
    [[ids, past], [hidden], /`past_key_values\.0\.key` has no output that continues it/],
    [
      [ids, { ...past, shape: ["b", "heads", "p", 4] }],
      [hidden, { ...past, name: "present.0.key", shape: [1, 2, 1, 4] }],
      /\[b, heads, p, 4\]; \[batch, heads, tokens, size\]/,
    ],
  ];
  for (const [inputs, outputs, message] of refused) await assert.rejects(read(inputs, outputs), message);
});

test("half-precision numbers are read as what they are", () => {
  const values = [0, 0x3c00, 0xc000, 0x7bff, 1, 0x8001, 0x7c00, 0xfc00].map(halfToNumber);
  assert.deepEqual(values, [0, 1, -2, 65504, 2 ** -24, -(2 ** -24), Infinity, -Infinity]);
  assert.ok(Number.isNaN(halfToNumber(0x7e00)));
});

test("the end token is the post-processor's; files without one get Qwen's; other templates are refused", async () => {
  const tokenizer = JSON.parse(await readFile(join(modelFolder, "tokenizer.json"), "utf8"));
  const config = { eos_token: "<|im_end|>" };
  const endOf = (postProcessor: unknown) =>
    new EmbeddingTokenizer("it", { tokenizer: { ...tokenizer, post_processor: postProcessor }, config })
      .endId;
  const special = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const text = { Sequence: { id: "A", type_id: 0 } };
  const template = (...single: unknown[]) => ({
    ...tokenizer.post_processor,
    type: "TemplateProcessing",
    single,
  });
  assert.equal(endOf(tokenizer.post_processor), 2022);
  assert.equal(endOf(null), 2022);
  assert.equal(
    endOf({ type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false }),
    2022,
  );
  for (
    const wrong of [
      template(special("<|endoftext|>"), text),
      template(text),
      template(text, special("a"), special("b")),
    ]
  ) {
    assert.throws(() => endOf(wrong), /something else than append one end token/);
  }
});

test("a model whose tokenizer appends no end token gives the same numbers", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-test-"));
  try {
    for (const name of ["model.onnx", "model.onnx_data"]) {
      await cp(join(modelFolder, name), join(folder, name));
    }
    const tokenizer = JSON.parse(await readFile(join(modelFolder, "tokenizer.json"), "utf8"));
    await writeFile(join(folder, "tokenizer.json"), JSON.stringify({ ...tokenizer, post_processor: null }));
    const [bare, whole] = [await openEmbedder("model.onnx", { folder }), await openEmbedder("model.onnx")];
    assert.deepEqual((await embed(bare, ["So be it."])).pooled, (await embed(whole, ["So be it."])).pooled);
    await bare.close();
    await whole.close();
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("models are found in folders and in the Hub's cache; what is missing is said with what to do", async () => {
  const source = { model: "org/name", revision: "main" };
  const folder = await mkdtemp(join(tmpdir(), "canopy-test-"));
  try {
    const cached = join(folder, "hub", "models--org--name");
    const snapshot = join(cached, "snapshots", "abc123");
    const env = { HF_HOME: folder };
    assert.equal(await findOnnxFiles(source, env), undefined);
    for (const name of ["tokenizer.json", "onnx/model.onnx", "onnx/model_int8.onnx"]) {
      await cp(join(modelFolder, "config.json"), join(snapshot, name), { recursive: true });
    }
    await cp(join(modelFolder, "config.json"), join(cached, "refs", "other"), { recursive: true });
    await writeFile(join(cached, "refs", "main"), "abc123\n");
    assert.deepEqual(await findOnnxFiles(source, env), {
      folder: snapshot,
      path: join(snapshot, "onnx", "model_int8.onnx"),
    });
    assert.equal(
      (await findOnnxFiles({ ...source, file: "onnx/model.onnx" }, env))?.path,
      join(snapshot, "onnx", "model.onnx"),
    );
    await assert.rejects(
      findOnnxFiles({ ...source, file: "onnx/model_q4.onnx" }, env),
      /has no onnx\/model_q4\.onnx/,
    );
    assert.equal((await findOnnxFiles({ model: snapshot, revision: "main" }, {}))?.folder, snapshot);
    assert.equal(
      (await findOnnxFiles({ model: modelFolder, revision: "main" }, {}))?.path,
      join(modelFolder, "model.onnx"),
    );
    await assert.rejects(
      findOnnxFiles({ model: folder, revision: "main" }, {}),
      /no ONNX file; run `canopy models pull`/,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});
