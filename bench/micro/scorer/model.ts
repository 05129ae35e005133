import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Random } from "../../../base/random.ts";
import { GraphWriter } from "./graph_writer.ts";
import { encodeModel, type Value } from "../../../ml/onnx/onnx_file.ts";

/** Sizes of a Qwen3 model. */
export interface TransformerSize {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly cacheHeads: number;
  readonly headSize: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  /** Longest text, in tokens. */
  readonly positions: number;
}

/** The body of Qwen3-Embedding-0.6B, 440 million parameters, with a small vocabulary. */
export const QWEN06: TransformerSize = {
  layers: 28,
  hidden: 1024,
  heads: 16,
  cacheHeads: 8,
  headSize: 128,
  feedForward: 3072,
  vocabulary: 2048,
  positions: 4096,
};

/**
 * Writes a model with random weights in the form that exporters give Qwen3: a cache of keys and values, dynamic int8,
 * weights in a file beside it. It gives features, as Qwen3-Embedding does, or logits. Its attention is made of standard
 * operators, or is ONNX Runtime's fused one. Returns the path.
 */
export function writeModel(
  folder: string,
  size: TransformerSize,
  gives: "features" | "logits" = "features",
  form: "standard" | "fused" = "standard",
): string {
  const graph = new GraphWriter(folder);
  const inputs: Value[] = [
    { name: "input_ids", type: "int64", shape: ["batch", "tokens"] },
    { name: "attention_mask", type: "int64", shape: ["batch", "all_tokens"] },
    ...(form === "fused" ? [] : [
      { name: "position_ids", type: "int64", shape: ["batch", "tokens"] } as const,
    ]),
  ];
  const outputs: Value[] = [
    gives === "features"
      ? { name: "last_hidden_state", type: "float32", shape: ["batch", "tokens", size.hidden] }
      : { name: "logits", type: "float32", shape: ["batch", "tokens", size.vocabulary] },
  ];
  const random = new Random("embeddings");
  const table = graph.floats(
    Float32Array.from({ length: size.vocabulary * size.hidden }, () => random.normal() / 30),
    [size.vocabulary, size.hidden],
  );
  const attention = form === "fused" ? fusedAttention(graph, size) : standardAttention(graph, size);
  let rows = graph.op("Gather", [table, "input_ids"], { axis: 0 });
  for (let layer = 0; layer < size.layers; layer++) {
    for (const part of ["key", "value"]) {
      const shape = (tokens: string) => ["batch", size.cacheHeads, tokens, size.headSize];
      inputs.push({ name: `past_key_values.${layer}.${part}`, type: "float32", shape: shape("past") });
      outputs.push({ name: `present.${layer}.${part}`, type: "float32", shape: shape("all_tokens") });
    }
    rows = graph.op("Add", [rows, attention(rows, layer)]);
    rows = graph.op("Add", [rows, feedForward(graph, size, rows)]);
  }
  if (gives === "features") graph.norm(rows, 2, size.hidden, "last_hidden_state");
  else {
    const last = graph.quantise(graph.norm(rows, 2, size.hidden));
    graph.linear(last, size.hidden, size.vocabulary, "logits");
  }
  graph.close();
  const path = join(folder, "model.onnx");
  writeFileSync(path, encodeModel({ inputs, outputs, nodes: graph.nodes, constants: graph.constants }));
  return path;
}

interface Rotation {
  readonly cosine: string;
  readonly sine: string;
}

/** Cosines and sines of the tokens' places, [batch, 1, tokens, head size]. */
function rotations(graph: GraphWriter, { positions, headSize }: TransformerSize): Rotation {
  const angle = (index: number) => {
    const [place, column] = [Math.floor(index / headSize), index % headSize % (headSize / 2)];
    return place * 1e6 ** (-2 * column / headSize);
  };
  const at = (of: (angle: number) => number) => {
    const values = Float32Array.from({ length: positions * headSize }, (_, index) => of(angle(index)));
    const gathered = graph.op("Gather", [graph.floats(values, [positions, headSize]), "position_ids"], {
      axis: 0,
    });
    return graph.op("Unsqueeze", [gathered, graph.integers(1)]);
  };
  return { cosine: at(Math.cos), sine: at(Math.sin) };
}

/** 0 where a token may look, −10⁹ where it may not, [batch, 1, tokens, all tokens]. */
function causalBias(graph: GraphWriter): string {
  const places = graph.op("Sub", [
    graph.op("CumSum", ["attention_mask", graph.integers(1)]),
    graph.integers(1),
  ]);
  const before = graph.op("LessOrEqual", [
    graph.op("Unsqueeze", [places, graph.integers(1, 2)]),
    graph.op("Unsqueeze", ["position_ids", graph.integers(1, 3)]),
  ]);
  const token = graph.op("Unsqueeze", [
    graph.op("Cast", ["attention_mask"], { to: 9 }),
    graph.integers(1, 2),
  ]);
  const allowed = graph.op("And", [before, token]);
  return graph.op("Where", [allowed, graph.floats([0], []), graph.floats([-1e9], [])]);
}

/** Attention output of a layer over all tokens so far, given its rows and its number. */
type Attention = (rows: string, layer: number) => string;

function standardAttention(graph: GraphWriter, size: TransformerSize): Attention {
  const { hidden, heads, cacheHeads, headSize } = size;
  const { cosine, sine } = rotations(graph, size);
  const bias = causalBias(graph);
  return (rows, layer) => {
    const input = graph.quantise(graph.norm(rows, 2, hidden));
    const split = (count: number) =>
      graph.op("Reshape", [
        graph.linear(input, hidden, count * headSize),
        graph.integers(0, 0, count, headSize),
      ]);
    const byHead = (value: string) => graph.op("Transpose", [value], { perm: [0, 2, 1, 3] });
    const rotated = (count: number) => {
      const value = byHead(graph.norm(split(count), 3, headSize));
      const [left, right] = graph.halves(value, 3);
      const turned = graph.op("Concat", [graph.op("Neg", [right]), left], { axis: 3 });
      return graph.op("Add", [graph.op("Mul", [value, cosine]), graph.op("Mul", [turned, sine])]);
    };
    /** Behind the cache, and then once for each of the heads that share it. */
    const continued = (part: string, value: string) => {
      const names = [`past_key_values.${layer}.${part}`, value];
      const all = graph.op("Concat", names, { axis: 2 }, `present.${layer}.${part}`);
      const copies = new Array<string>(heads / cacheHeads).fill(
        graph.op("Unsqueeze", [all, graph.integers(2)]),
      );
      return graph.op("Reshape", [
        graph.op("Concat", copies, { axis: 2 }),
        graph.integers(0, heads, -1, headSize),
      ]);
    };
    const queries = rotated(heads);
    const keys = continued("key", rotated(cacheHeads));
    const values = continued("value", byHead(split(cacheHeads)));
    const products = graph.op("MatMul", [queries, graph.op("Transpose", [keys], { perm: [0, 1, 3, 2] })]);
    const scaled = graph.op("Mul", [products, graph.floats([1 / Math.sqrt(headSize)], [])]);
    const shares = graph.op("Softmax", [graph.op("Add", [scaled, bias])], { axis: 3 });
    const read = byHead(graph.op("MatMul", [shares, values]));
    const joined = graph.op("Reshape", [read, graph.integers(0, 0, heads * headSize)]);
    return graph.linear(graph.quantise(joined), heads * headSize, hidden);
  };
}

function fusedAttention(graph: GraphWriter, size: TransformerSize): Attention {
  const { hidden, heads, cacheHeads, headSize, positions } = size;
  const angles = (of: (angle: number) => number) =>
    graph.floats(
      Float32Array.from({ length: positions * headSize / 2 }, (_, index) => {
        const column = index % (headSize / 2);
        return of(Math.floor(index / (headSize / 2)) * 1e6 ** (-2 * column / headSize));
      }),
      [positions, headSize / 2],
    );
  const [cosines, sines] = [angles(Math.cos), angles(Math.sin)];
  const counted = graph.op("ReduceSum", ["attention_mask", graph.integers(1)], { keepdims: 0 });
  const last = graph.op("Cast", [graph.op("Sub", [counted, graph.integers(1)])], { to: 6 });
  const length = graph.op("Gather", [graph.op("Shape", ["attention_mask"]), graph.integer(1)]);
  const total = graph.op("Cast", [length], { to: 6 });
  return (rows, layer) => {
    const input = graph.quantise(graph.norm(rows, 2, hidden));
    const normed = (count: number) => {
      const split = graph.op("Reshape", [
        graph.linear(input, hidden, count * headSize),
        graph.integers(0, 0, count, headSize),
      ]);
      return graph.op("Reshape", [graph.norm(split, 3, headSize), graph.integers(0, 0, count * headSize)]);
    };
    const [queries, keys] = [normed(heads), normed(cacheHeads)];
    const values = graph.linear(input, hidden, cacheHeads * headSize);
    const read = graph.groupQueryAttention(
      [
        queries,
        keys,
        values,
        `past_key_values.${layer}.key`,
        `past_key_values.${layer}.value`,
        last,
        total,
        cosines,
        sines,
      ],
      [`present.${layer}.key`, `present.${layer}.value`],
      heads,
      cacheHeads,
    );
    return graph.linear(graph.quantise(read), heads * headSize, hidden);
  };
}

function feedForward(
  graph: GraphWriter,
  { hidden, feedForward: width }: TransformerSize,
  rows: string,
): string {
  const input = graph.quantise(graph.norm(rows, 2, hidden));
  const gate = graph.linear(input, hidden, width);
  const open = graph.op("Mul", [gate, graph.op("Sigmoid", [gate])]);
  const product = graph.op("Mul", [open, graph.linear(input, hidden, width)]);
  return graph.linear(graph.quantise(product), width, hidden);
}
