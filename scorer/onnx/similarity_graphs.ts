import { encodeModel, type Node, type OnnxGraph } from "../../ml/onnx/onnx_file.ts";
import type { OnnxRuntime, OnnxSession, Tensor } from "../../ml/onnx/runtime.ts";
import type { CorrelationTerms } from "../similarity/similarity.ts";

/** Data of an answer for comparisons; its size does not depend on the number of tokens. */
export interface Correlation extends CorrelationTerms {
  /** Corr(U), [h, h]. */
  readonly matrix: Tensor;
}

/** Below this a column counts as zero: it then correlates with nothing, not even with itself. */
const LEAST_NORM = 1e-30;

const node = (
  operator: string,
  inputs: readonly string[],
  output: string,
  attributes?: Node["attributes"],
): Node => ({ operator, inputs, outputs: [output], attributes });

/** U + XᵀX. */
const accumulate: OnnxGraph = {
  inputs: [
    { name: "sum", type: "float32", shape: ["h", "h"] },
    { name: "rows", type: "float32", shape: ["n", "h"] },
  ],
  outputs: [{ name: "result", type: "float32", shape: ["h", "h"] }],
  nodes: [
    node("Transpose", ["rows"], "columns", { perm: [1, 0] }),
    node("MatMul", ["columns", "rows"], "product"),
    node("Add", ["sum", "product"], "result"),
  ],
};

/** Corr(U), ‖Corr(U)‖² and Σ Gᵢᵢ². */
const correlate: OnnxGraph = {
  inputs: accumulate.inputs,
  outputs: [
    { name: "matrix", type: "float32", shape: ["h", "h"] },
    { name: "squares", type: "float32", shape: [] },
    { name: "self_products", type: "float32", shape: [] },
  ],
  constants: [{
    name: "least",
    type: "float32",
    shape: [],
    data: new Uint8Array(Float32Array.of(LEAST_NORM).buffer),
  }],
  nodes: [
    node("ReduceSumSquare", ["rows"], "column_squares", { axes: [0], keepdims: 1 }),
    node("Sqrt", ["column_squares"], "column_norms"),
    node("Max", ["column_norms", "least"], "norms"),
    node("Transpose", ["norms"], "norms_down", { perm: [1, 0] }),
    node("Div", ["sum", "norms"], "half"),
    node("Div", ["half", "norms_down"], "matrix"),
    node("ReduceSumSquare", ["matrix"], "squares", { keepdims: 0 }),
    node("Div", ["rows", "norms"], "features"),
    node("ReduceSumSquare", ["features"], "own", { axes: [1], keepdims: 0 }),
    node("ReduceSumSquare", ["own"], "self_products", { keepdims: 0 }),
  ],
};

/** ⟨A, B⟩_F. */
const multiply: OnnxGraph = {
  inputs: ["a", "b"].map((name) => ({ name, type: "float32", shape: ["h", "h"] })),
  outputs: [{ name: "result", type: "float32", shape: [] }],
  nodes: [
    node("Mul", ["a", "b"], "products"),
    node("ReduceSum", ["products"], "result", { keepdims: 0 }),
  ],
};

/**
 * The terms of the Frobenius cosine, computed by ONNX Runtime: a hundred times faster than loops. They are taken in
 * the form of h × h matrices, as the paper writes them, because those can be summed up while an answer grows: what
 * remains at its end, and every comparison, costs the same for short answers and for long ones.
 */
export class SimilarityGraphs {
  readonly #runtime: OnnxRuntime;
  readonly #accumulate: OnnxSession;
  readonly #correlate: OnnxSession;
  readonly #multiply: OnnxSession;

  private constructor(
    runtime: OnnxRuntime,
    sessions: readonly [OnnxSession, OnnxSession, OnnxSession],
  ) {
    this.#runtime = runtime;
    [this.#accumulate, this.#correlate, this.#multiply] = sessions;
  }

  static async open(runtime: OnnxRuntime, threads: number): Promise<SimilarityGraphs> {
    const open = (graph: OnnxGraph) => runtime.open(encodeModel(graph), threads);
    return new SimilarityGraphs(runtime, [
      await open(accumulate),
      await open(correlate),
      await open(multiply),
    ]);
  }

  /** Adds rows to the sum U = TᵀT; undefined is the sum of none. `rows` is [n, h], n > 0. */
  async add(sum: Tensor | undefined, rows: Float32Array, dimensions: number): Promise<Tensor> {
    const { result } = await this.#accumulate.run({
      sum: sum ?? this.#runtime.float32(new Float32Array(dimensions ** 2), [dimensions, dimensions]),
      rows: this.#runtime.float32(rows, [rows.length / dimensions, dimensions]),
    });
    return result!;
  }

  /** From all rows T and their sum U. Throws when a number is not finite. */
  async correlation(sum: Tensor, rows: Float32Array, dimensions: number): Promise<Correlation> {
    const count = rows.length / dimensions;
    const { matrix, squares, self_products } = await this.#correlate.run({
      sum,
      rows: this.#runtime.float32(rows, [count, dimensions]),
    });
    return {
      rows: count,
      dimensions,
      matrix: matrix!,
      squares: finite(squares!),
      selfProducts: finite(self_products!),
    };
  }

  /** ⟨Corr(U), Corr(V)⟩_F. */
  async product(a: Correlation, b: Correlation): Promise<number> {
    const { result } = await this.#multiply.run({ a: a.matrix, b: b.matrix });
    return finite(result!);
  }

  async close(): Promise<void> {
    for (const session of [this.#accumulate, this.#correlate, this.#multiply]) await session.release();
  }
}

function finite(tensor: Tensor): number {
  const value = (tensor.data as Float32Array)[0]!;
  if (!Number.isFinite(value)) throw new Error("The embedding model gave numbers that are not finite");
  return value;
}
