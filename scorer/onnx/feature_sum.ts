import type { Tensor } from "../../ml/onnx/runtime.ts";
import type { Correlation, SimilarityGraphs } from "./similarity_graphs.ts";

/** Rows that are added up at once. */
const ROWS_AT_ONCE = 256;

/** Rows of token features T [n, h] of a growing answer, and their sum TᵀT. */
export class FeatureSum {
  readonly #graphs: SimilarityGraphs;
  readonly #dimensions: number;
  readonly #pieces: Float32Array[] = [];
  #summedPieces = 0;
  #rows = 0;
  #summedRows = 0;
  #sum: Tensor | undefined;

  constructor(graphs: SimilarityGraphs, dimensions: number) {
    this.#graphs = graphs;
    this.#dimensions = dimensions;
  }

  /** Takes [rows, dimensions]; keeps the array. */
  async add(rows: Float32Array): Promise<void> {
    this.#pieces.push(rows);
    this.#rows += rows.length / this.#dimensions;
    if (this.#rows - this.#summedRows >= ROWS_AT_ONCE) await this.#addUp();
  }

  /** The terms of all rows, at least one, and the last row. */
  async correlation(): Promise<{ correlation: Correlation; last: Float32Array }> {
    if (this.#rows > this.#summedRows) await this.#addUp();
    const rows = joined(this.#pieces);
    const last = rows.slice(rows.length - this.#dimensions);
    return { correlation: await this.#graphs.correlation(this.#sum!, rows, this.#dimensions), last };
  }

  async #addUp(): Promise<void> {
    const rows = joined(this.#pieces.slice(this.#summedPieces));
    this.#summedPieces = this.#pieces.length;
    this.#summedRows = this.#rows;
    this.#sum = await this.#graphs.add(this.#sum, rows, this.#dimensions);
  }
}

function joined(pieces: readonly Float32Array[]): Float32Array {
  if (pieces.length === 1) return pieces[0]!;
  const whole = new Float32Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
