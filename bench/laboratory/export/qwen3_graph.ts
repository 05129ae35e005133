import { GraphParts } from "../../../ml/onnx/graph_parts.ts";
import type { OnnxGraph, Value } from "../../../ml/onnx/onnx_file.ts";
import type { Qwen3Config } from "./qwen3_config.ts";

/** Puts constants and operators that give a tensor of weights in float32 into a graph; gives the tensor's name. */
export type Weights = (name: string, graph: GraphParts) => string;

/**
 * A Qwen3 decoder with ONNX Runtime's fused attention, float32 throughout: it gives logits, or the features after the
 * last norm as embedding models do. Products of the same rows are one operator, whose weights ONNX Runtime puts
 * together when it loads them.
 */
export function qwen3Graph(config: Qwen3Config, weights: Weights, gives: "logits" | "features"): OnnxGraph {
  const { layers, hidden, vocabulary, epsilon, cacheHeads, headSize } = config;
  const graph = new GraphParts();
  const inputs: Value[] = [
    { name: "input_ids", type: "int64", shape: ["batch", "tokens"] },
    { name: "attention_mask", type: "int64", shape: ["batch", "all"] },
  ];
  const outputs: Value[] = [
    gives === "logits"
      ? { name: "logits", type: "float32", shape: ["batch", "tokens", vocabulary] }
      : { name: "last_hidden_state", type: "float32", shape: ["batch", "tokens", hidden] },
  ];
  const table = weights("embed_tokens.weight", graph);
  const places = placesOf(graph, config);
  let rows = graph.op("Gather", [table, "input_ids"], { axis: 0 });
  for (let layer = 0; layer < layers; layer++) {
    const names = (kind: string) => ["key", "value"].map((part) => `${kind}.${layer}.${part}`);
    const shape = (tokens: string) => ["batch", cacheHeads, tokens, headSize];
    for (const name of names("past_key_values")) inputs.push({ name, type: "float32", shape: shape("past") });
    for (const name of names("present")) outputs.push({ name, type: "float32", shape: shape("all") });
    const weight = (part: string) => weights(`layers.${layer}.${part}.weight`, graph);
    const norm = (of: string, part: string) => rootMeanSquare(graph, of, weight(part), { axis: 2, epsilon });
    const read = attention(graph, config, { rows: norm(rows, "input_layernorm"), layer, weight, places });
    rows = graph.op("Add", [rows, product(graph, read, [weight("self_attn.o_proj")])]);
    const fed = feedForward(graph, config, norm(rows, "post_attention_layernorm"), weight);
    rows = graph.op("Add", [rows, fed]);
  }
  const last = rootMeanSquare(graph, rows, weights("norm.weight", graph), { axis: 2, epsilon });
  if (gives === "features") graph.op("Identity", [last], {}, outputs[0]!.name);
  else {
    const matrix = config.tied ? table : weights("lm_head.weight", graph);
    product(graph, last, [matrix], outputs[0]!.name);
  }
  return { inputs, outputs, nodes: graph.nodes, constants: graph.constants };
}

/** Root mean square norm over the last axis, of which `axis` is the number. */
function rootMeanSquare(
  graph: GraphParts,
  rows: string,
  weight: string,
  { axis, epsilon }: { readonly axis: number; readonly epsilon: number },
): string {
  return graph.op("SimplifiedLayerNormalization", [rows, weight], { axis, epsilon: { float: epsilon } });
}

/** Rows by matrices [to, from], side by side. */
function product(graph: GraphParts, rows: string, matrices: readonly string[], output?: string): string {
  const matrix = matrices.length === 1 ? matrices[0]! : graph.op("Concat", matrices, { axis: 0 });
  return graph.op("MatMul", [rows, graph.op("Transpose", [matrix], { perm: [1, 0] })], {}, output);
}

/** What the fused attention wants to know of the tokens' places, the same in all layers. */
function placesOf(graph: GraphParts, { positions, headSize, ropeTheta }: Qwen3Config): string[] {
  const counted = graph.op("ReduceSum", ["attention_mask", graph.integers(1)], { keepdims: 0 });
  const last = graph.op("Cast", [graph.op("Sub", [counted, graph.integers(1)])], { to: 6 });
  const columns = graph.op("Shape", ["attention_mask"], { start: 1 });
  const total = graph.op("Cast", [columns], { to: 6 });
  const half = headSize / 2;
  const frequencies = Float32Array.from({ length: half }, (_, column) => ropeTheta ** (-column / half));
  // Counted when the model is loaded: a table of all places would be most of the file.
  const every = graph.op("Range", [0, positions, 1].map((bound) => graph.floats([bound], [])));
  const angles = graph.op("Mul", [
    graph.op("Unsqueeze", [every, graph.integers(1)]),
    graph.floats(frequencies, [1, half]),
  ]);
  return [last, total, graph.op("Cos", [angles]), graph.op("Sin", [angles])];
}

/** One layer's rows, its number, its weights, and the tokens' places. */
interface AttentionInputs {
  readonly rows: string;
  readonly layer: number;
  readonly weight: (part: string) => string;
  readonly places: readonly string[];
}

function attention(
  graph: GraphParts,
  { heads, cacheHeads, headSize, epsilon }: Qwen3Config,
  { rows, layer, weight, places }: AttentionInputs,
): string {
  const parts = ["q", "k", "v"].map((part) => weight(`self_attn.${part}_proj`));
  const widths = [heads, cacheHeads, cacheHeads].map((count) => count * headSize);
  const [queries = "", keys = "", values = ""] = graph.split(product(graph, rows, parts), 2, widths);
  const normed = (value: string, part: string, count: number) => {
    const split = graph.op("Reshape", [value, graph.integers(0, 0, count, headSize)]);
    const even = rootMeanSquare(graph, split, weight(`self_attn.${part}_norm`), { axis: 3, epsilon });
    return graph.op("Reshape", [even, graph.integers(0, 0, count * headSize)]);
  };
  const of = (kind: string) => ["key", "value"].map((part) => `${kind}.${layer}.${part}`);
  const inputs = [
    normed(queries, "q", heads),
    normed(keys, "k", cacheHeads),
    values,
    ...of("past_key_values"),
    ...places,
  ];
  return graph.groupQueryAttention(inputs, of("present"), heads, cacheHeads);
}

function feedForward(
  graph: GraphParts,
  { feedForward: width }: Qwen3Config,
  rows: string,
  weight: (part: string) => string,
): string {
  const both = product(graph, rows, [weight("mlp.gate_proj"), weight("mlp.up_proj")]);
  const [gate = "", up = ""] = graph.split(both, 2, [width, width]);
  const open = graph.op("Mul", [gate, graph.op("Sigmoid", [gate])]);
  return product(graph, graph.op("Mul", [open, up]), [weight("mlp.down_proj")]);
}
