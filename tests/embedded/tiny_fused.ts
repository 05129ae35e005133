import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Constant, encodeModel, type Node, type Value } from "../../ml/onnx/onnx_file.ts";
import { TINY_FOLDER } from "./tiny_model.ts";

// Of tests/fixtures/tiny-qwen3/config.json.
const LAYERS = 2;
const HEADS = 4;
const CACHE_HEADS = 2;
const HEAD_SIZE = 64;
const HIDDEN = 64;
const FEED_FORWARD = 128;
const VOCABULARY = 1920;
const ROPE_THETA = 1e6;
const EPSILON = 1e-6;
const POSITIONS = 4096;

/** The tensors of a safetensors file with bfloat16 as the upper halves of float32. */
async function weights(path: string): Promise<(name: string) => Float32Array> {
  const file = await readFile(path);
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header: Record<string, { dtype: string; data_offsets: [number, number] }> = JSON.parse(
    file.subarray(8, 8 + headerBytes).toString(),
  );
  return (name) => {
    const { dtype, data_offsets: [start, end] } = header[name]!;
    if (dtype !== "BF16") throw new TypeError(`${name} is ${dtype}; BF16 is known here`);
    const bits = new Uint32Array((end - start) / 2);
    for (let at = 0; at < bits.length; at++) {
      bits[at] = file.readUInt16LE(8 + headerBytes + start + 2 * at) << 16;
    }
    return new Float32Array(bits.buffer);
  };
}

/**
 * Writes the tiny Qwen3 with ONNX Runtime's fused attention in place of standard operators, as model builders export
 * for it: float32, the same weights as `tests/fixtures/tiny-qwen3-onnx`. Returns the path.
 */
export async function writeTinyFused(): Promise<string> {
  const weight = await weights(join(TINY_FOLDER, "model.safetensors"));
  const nodes: Node[] = [];
  const constants: Constant[] = [];
  const inputs: Value[] = [
    { name: "input_ids", type: "int64", shape: ["batch", "tokens"] },
    { name: "attention_mask", type: "int64", shape: ["batch", "all"] },
  ];
  const outputs: Value[] = [{ name: "logits", type: "float32", shape: ["batch", "tokens", VOCABULARY] }];
  let names = 0;
  const op = (operator: string, from: readonly string[], attributes: Node["attributes"] = {}): string => {
    const output = `v${names++}`;
    nodes.push({ operator, inputs: from, outputs: [output], attributes });
    return output;
  };
  const floats = (data: Float32Array, shape: readonly number[]): string => {
    const name = `c${names++}`;
    constants.push({ name, type: "float32", shape, data: new Uint8Array(data.buffer) });
    return name;
  };
  const whole = (...numbers: number[]): string => {
    const name = `c${names++}`;
    const data = new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer);
    constants.push({ name, type: "int64", shape: [numbers.length], data });
    return name;
  };
  const linear = (rows: string, name: string, from: number, to: number): string => {
    const matrix = floats(weight(`${name}.weight`), [to, from]);
    return op("MatMul", [rows, op("Transpose", [matrix], { perm: [1, 0] })]);
  };
  const epsilon = floats(Float32Array.of(EPSILON), []);
  const norm = (rows: string, name: string, axis: number, width: number): string => {
    const mean = op("ReduceMean", [op("Mul", [rows, rows])], { axes: [axis], keepdims: 1 });
    const scaled = op("Div", [rows, op("Sqrt", [op("Add", [mean, epsilon])])]);
    return op("Mul", [scaled, floats(weight(`${name}.weight`), [width])]);
  };
  const angles = (of: (angle: number) => number) =>
    floats(
      Float32Array.from({ length: POSITIONS * HEAD_SIZE / 2 }, (_, index) => {
        const column = index % (HEAD_SIZE / 2);
        return of(Math.floor(index / (HEAD_SIZE / 2)) * ROPE_THETA ** (-2 * column / HEAD_SIZE));
      }),
      [POSITIONS, HEAD_SIZE / 2],
    );
  const [cosines, sines] = [angles(Math.cos), angles(Math.sin)];
  const counted = op("ReduceSum", ["attention_mask", whole(1)], { keepdims: 0 });
  const last = op("Cast", [op("Sub", [counted, whole(1)])], { to: 6 });
  const total = op("Cast", [op("Gather", [op("Shape", ["attention_mask"]), whole(1)])], { to: 6 });
  let rows = op("Gather", [floats(weight("model.embed_tokens.weight"), [VOCABULARY, HIDDEN]), "input_ids"], {
    axis: 0,
  });
  for (let layer = 0; layer < LAYERS; layer++) {
    const of = (part: string) => `model.layers.${layer}.${part}`;
    const names = (kind: string) => ["key", "value"].map((part) => `${kind}.${layer}.${part}`);
    const shape = (tokens: string) => ["batch", CACHE_HEADS, tokens, HEAD_SIZE];
    const [pasts, presents] = [names("past_key_values"), names("present")];
    for (const name of pasts) inputs.push({ name, type: "float32", shape: shape("past") });
    for (const name of presents) outputs.push({ name, type: "float32", shape: shape("all") });
    const input = norm(rows, of("input_layernorm"), 2, HIDDEN);
    const normed = (part: string, heads: number) => {
      const width = heads * HEAD_SIZE;
      const split = op("Reshape", [
        linear(input, of(`self_attn.${part}_proj`), HIDDEN, width),
        whole(0, 0, heads, HEAD_SIZE),
      ]);
      return op("Reshape", [norm(split, of(`self_attn.${part}_norm`), 3, HEAD_SIZE), whole(0, 0, width)]);
    };
    const read = `read.${layer}`;
    nodes.push({
      operator: "GroupQueryAttention",
      domain: "com.microsoft",
      inputs: [
        normed("q", HEADS),
        normed("k", CACHE_HEADS),
        linear(input, of("self_attn.v_proj"), HIDDEN, CACHE_HEADS * HEAD_SIZE),
        ...pasts,
        last,
        total,
        cosines,
        sines,
      ],
      outputs: [read, ...presents],
      attributes: { num_heads: HEADS, kv_num_heads: CACHE_HEADS, do_rotary: 1 },
    });
    rows = op("Add", [rows, linear(read, of("self_attn.o_proj"), HEADS * HEAD_SIZE, HIDDEN)]);
    const after = norm(rows, of("post_attention_layernorm"), 2, HIDDEN);
    const gate = linear(after, of("mlp.gate_proj"), HIDDEN, FEED_FORWARD);
    const open = op("Mul", [gate, op("Sigmoid", [gate])]);
    const up = linear(after, of("mlp.up_proj"), HIDDEN, FEED_FORWARD);
    rows = op("Add", [rows, linear(op("Mul", [open, up]), of("mlp.down_proj"), FEED_FORWARD, HIDDEN)]);
  }
  const logits = linear(norm(rows, "model.norm", 2, HIDDEN), "lm_head", HIDDEN, VOCABULARY);
  nodes.push({ operator: "Identity", inputs: [logits], outputs: ["logits"] });
  const path = join(await mkdtemp(join(tmpdir(), "canopy-tiny-fused-")), "model.onnx");
  await writeFile(path, encodeModel({ inputs, outputs, nodes, constants }));
  return path;
}
