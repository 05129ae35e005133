import { readFile, writeFile } from "node:fs/promises";
import { messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";

/** Share of the mean variance in the variance of each direction, so that none is blown up. */
const SHRINKAGE = 0.3;
/** Largest width of vectors in a file. */
const MAX_DIMENSIONS = 16_384;
const FORMAT = "canopy-whitening-1";

/** Origin of a calibration. */
export interface WhiteningSource {
  /** The embedding model. */
  readonly model: string;
  /** Texts whose vectors it was fitted to. */
  readonly texts: number;
}

/**
 * Removes from pooled vectors what all texts have in common, so that the cosine of unrelated ones is about 0: a vector
 * of length 1 becomes x ↦ L⁻¹(x − μ), where LLᵀ = 0.7·C + 0.3·λ̄·I, C is the covariance of background vectors and λ̄ its
 * mean eigenvalue. Its cosines are those of (x − μ)·V·diag((0.7λ + 0.3λ̄)^−½) with the eigenvectors V of C (whitening
 * is unique up to a rotation, which no cosine sees), and no eigenvectors have to be found.
 */
export class Whitening {
  readonly source: WhiteningSource;
  readonly dimensions: number;
  /** μ. */
  readonly #mean: Float32Array;
  /** L, row by row. */
  readonly #factor: Float32Array;

  private constructor(source: WhiteningSource, mean: Float32Array, factor: Float32Array) {
    this.source = source;
    this.dimensions = mean.length;
    this.#mean = mean;
    this.#factor = factor;
  }

  /** From pooled vectors of background texts, of any length. Throws a `RangeError` when nothing can be learnt of them. */
  static fit(model: string, vectors: readonly Float32Array[]): Whitening {
    const width = vectors[0]?.length ?? 0;
    if (vectors.length < 2 || vectors.some((vector) => vector.length !== width)) {
      throw new RangeError(
        `Cannot fit a whitening: it takes two vectors of one width: there are ${vectors.length}`,
      );
    }
    const units = vectors.map((vector) => unit(vector));
    const mean = new Float64Array(width);
    for (const one of units) one.forEach((value, i) => mean[i]! += value / units.length);
    const covariance = new Float64Array(width * width);
    for (const one of units) {
      const centred = one.map((value, i) => value - mean[i]!);
      for (let i = 0; i < width; i++) {
        for (let j = 0; j <= i; j++) covariance[i * width + j]! += centred[i]! * centred[j]! / units.length;
      }
    }
    let trace = 0;
    for (let i = 0; i < width; i++) trace += covariance[i * width + i]!;
    if (!(trace > 0 && trace < Infinity)) {
      throw new RangeError("Cannot fit a whitening: the vectors are all the same, or not finite");
    }
    const mixed = covariance.map((value) => (1 - SHRINKAGE) * value);
    for (let i = 0; i < width; i++) mixed[i * width + i]! += SHRINKAGE * trace / width;
    const source = { model, texts: vectors.length };
    return new Whitening(source, Float32Array.from(mean), Float32Array.from(cholesky(mixed, width)));
  }

  /** Throws an error that names the file and what is wrong with it. */
  static async read(path: string): Promise<Whitening> {
    try {
      const { header, numbers } = parse(await readFile(path));
      const { format, model, texts } = isJsonObject(header["__metadata__"]) ? header["__metadata__"] : {};
      if (format !== FORMAT) throw new Error("it is not a calibration file of Canopy");
      const mean = numbers("mean");
      const factor = numbers("factor");
      if (factor.length !== mean.length ** 2) throw new Error("its tensors do not belong together");
      for (let i = 0; i < mean.length; i++) {
        if (!(factor[i * mean.length + i]! > 0)) throw new Error("its factor has no inverse");
      }
      return new Whitening({ model: String(model), texts: Number(texts) }, mean, factor);
    } catch (cause) {
      throw new Error(`Cannot read the calibration file ${path}: ${messageOf(cause)}`, { cause });
    }
  }

  /** In the safetensors format. */
  async write(path: string): Promise<void> {
    const width = this.dimensions;
    const end = 4 * width * (width + 1);
    const header = JSON.stringify({
      __metadata__: { format: FORMAT, model: this.source.model, texts: String(this.source.texts) },
      mean: { dtype: "F32", shape: [width], data_offsets: [0, 4 * width] },
      factor: { dtype: "F32", shape: [width, width], data_offsets: [4 * width, end] },
    });
    const text = new TextEncoder().encode(header.padEnd(Math.ceil(header.length / 8) * 8));
    const bytes = new Uint8Array(8 + text.length + end);
    const view = new DataView(bytes.buffer);
    view.setBigUint64(0, BigInt(text.length), true);
    bytes.set(text, 8);
    let at = 8 + text.length;
    for (const numbers of [this.#mean, this.#factor]) {
      for (const value of numbers) {
        view.setFloat32(at, value, true);
        at += 4;
      }
    }
    await writeFile(path, bytes);
  }

  /** Throws a `RangeError` for a vector of another width: the calibration is another model's. */
  apply(vector: Float32Array): Float32Array {
    const width = this.dimensions;
    if (vector.length !== width) {
      throw new RangeError(
        `The calibration is of ${width} dimensions (${this.source.model}), the vector has ${vector.length}`,
      );
    }
    // Forward substitution: L·y = x − μ.
    const result = unit(vector);
    for (let i = 0; i < width; i++) {
      let value = result[i]! - this.#mean[i]!;
      for (let j = 0; j < i; j++) value -= this.#factor[i * width + j]! * result[j]!;
      result[i] = value / this.#factor[i * width + i]!;
    }
    return Float32Array.from(result);
  }
}

function unit(vector: Float32Array): Float64Array {
  const wide = Float64Array.from(vector);
  const length = Math.sqrt(wide.reduce((sum, value) => sum + value * value, 0));
  return length > 0 ? wide.map((value) => value / length) : wide;
}

/** L of A = LLᵀ, from the lower half of a positive definite A. */
function cholesky(matrix: Float64Array, width: number): Float64Array {
  const factor = new Float64Array(width * width);
  for (let i = 0; i < width; i++) {
    for (let j = 0; j <= i; j++) {
      let value = matrix[i * width + j]!;
      for (let k = 0; k < j; k++) value -= factor[i * width + k]! * factor[j * width + k]!;
      factor[i * width + j] = i === j ? Math.sqrt(value) : value / factor[j * width + j]!;
    }
  }
  return factor;
}

/** The header of a safetensors file, and its tensors of 32-bit numbers. */
function parse(bytes: Uint8Array): { header: JsonObject; numbers: (name: string) => Float32Array } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = bytes.length < 8 ? 0 : Number(view.getBigUint64(0, true));
  if (length < 2 || length > bytes.length - 8) throw new Error("it is no safetensors file");
  const header: unknown = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  if (!isJsonObject(header)) throw new Error("it is no safetensors file");
  const numbers = (name: string) => {
    const tensor = header[name];
    const { dtype, data_offsets: offsets } = isJsonObject(tensor) ? tensor : {};
    const [from, to] = Array.isArray(offsets) ? offsets.map(Number) : [];
    const begin = 8 + length;
    const whole = from !== undefined && to !== undefined && from >= 0 && from < to && (to - from) % 4 === 0 &&
      to - from <= 4 * MAX_DIMENSIONS ** 2 && begin + to <= bytes.length;
    if (dtype !== "F32" || !whole) throw new Error(`it has no whole tensor ${name} of 32-bit numbers`);
    const values = Float32Array.from(
      { length: (to - from) / 4 },
      (_, i) => view.getFloat32(begin + from + 4 * i, true),
    );
    if (!values.every(Number.isFinite)) throw new Error(`its tensor ${name} has numbers that are not finite`);
    return values;
  };
  return { header, numbers };
}
