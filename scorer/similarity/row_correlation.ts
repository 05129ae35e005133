import type { CorrelationTerms } from "./similarity.ts";

/**
 * The terms of the Frobenius cosine by loops in 64 bits: the reference for ONNX Runtime, and its substitute where it
 * cannot be loaded. A comparison costs n·m·h: 0.2 s for 512 tokens of 1,024 dimensions.
 */
export class RowCorrelation implements CorrelationTerms {
  readonly rows: number;
  readonly dimensions: number;
  readonly squares: number;
  readonly selfProducts: number;
  /** h, columns of zeros too. */
  readonly #width: number;
  /** T̃ [n, h], row by row. */
  readonly #unit: Float64Array;
  readonly #active: readonly boolean[];

  /** From T [n, h], row by row. Throws a `RangeError` for numbers that are not finite or make no whole rows. */
  constructor(rows: ArrayLike<number>, width: number) {
    this.rows = rows.length / width;
    if (!Number.isInteger(this.rows)) {
      throw new RangeError(`Token features must be rows of ${width} numbers: there are ${rows.length}`);
    }
    this.#width = width;
    const norms = columnNorms(rows, width);
    this.#active = Array.from(norms, (norm) => norm > 0);
    this.dimensions = this.#active.filter((active) => active).length;
    this.#unit = Float64Array.from(
      rows,
      (value, index) => norms[index % width]! > 0 ? value / norms[index % width]! : 0,
    );
    this.squares = this.product(this);
    let selfProducts = 0;
    for (let row = 0; row < this.rows; row++) selfProducts += this.#dot(row, this, row) ** 2;
    this.selfProducts = selfProducts;
  }

  /** ‖T̃S̃ᵀ‖²_F. */
  product(other: RowCorrelation): number {
    let sum = 0;
    for (let row = 0; row < this.rows; row++) {
      for (let column = 0; column < other.rows; column++) sum += this.#dot(row, other, column) ** 2;
    }
    return sum;
  }

  /** Columns that are zero in neither. */
  shared(other: RowCorrelation): number {
    return this.#active.filter((active, column) => active && other.#active[column]).length;
  }

  #dot(row: number, other: RowCorrelation, otherRow: number): number {
    const width = this.#width;
    const left = this.#unit;
    const right = other.#unit;
    let sum = 0;
    const from = row * width;
    const otherFrom = otherRow * width;
    for (let column = 0; column < width; column++) sum += left[from + column]! * right[otherFrom + column]!;
    return sum;
  }
}

/** Divided by the largest value first, so that squares neither overflow nor vanish. */
function columnNorms(rows: ArrayLike<number>, width: number): Float64Array {
  const largest = new Float64Array(width);
  for (let i = 0; i < rows.length; i++) {
    const value = Math.abs(rows[i]!);
    if (!(value < Infinity)) throw new RangeError(`Token features must be finite: there is ${rows[i]}`);
    largest[i % width] = Math.max(largest[i % width]!, value);
  }
  const sums = new Float64Array(width);
  for (let i = 0; i < rows.length; i++) {
    const scale = largest[i % width]!;
    if (scale > 0) sums[i % width]! += (rows[i]! / scale) ** 2;
  }
  return sums.map((sum, column) => largest[column]! * Math.sqrt(sum));
}
