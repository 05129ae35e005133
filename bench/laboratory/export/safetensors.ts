import { closeSync, openSync, readSync } from "node:fs";
import { CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type Json } from "../../../base/json.ts";
import { halfToNumber } from "../../../ml/onnx/tensor_numbers.ts";

/** Types of weights that are read here. */
const TYPES = { F16: "float16", BF16: "bfloat16", F32: "float32" } as const;

/** One tensor of a safetensors file: its numbers are `length` little-endian bytes from `offset` on. */
export interface StoredTensor {
  readonly type: (typeof TYPES)[keyof typeof TYPES];
  readonly shape: readonly number[];
  readonly offset: number;
  readonly length: number;
}

/** The tensors of a safetensors file by their names. Throws 400 `unsupported_weights` for types that are not known here. */
export function readSafetensors(path: string): ReadonlyMap<string, StoredTensor> {
  const size = new Uint8Array(8);
  const file = openSync(path, "r");
  let header: Uint8Array;
  try {
    readSync(file, size, 0, 8, 0);
    header = new Uint8Array(Number(new DataView(size.buffer).getBigUint64(0, true)));
    readSync(file, header, 0, header.length, 8);
  } finally {
    closeSync(file);
  }
  const entries: Json = JSON.parse(new TextDecoder().decode(header));
  if (!isJsonObject(entries)) throw unsupported(`${path} is no safetensors file`);
  return new Map(
    Object.entries(entries).filter(([name]) => name !== "__metadata__").map(([name, entry]) => [
      name,
      tensorOf(`${path}: ${name}`, entry ?? null, 8 + header.length),
    ]),
  );
}

function tensorOf(name: string, entry: Json, base: number): StoredTensor {
  const { dtype, shape, data_offsets: offsets } = isJsonObject(entry) ? entry : {};
  const type = dtype === "F16" || dtype === "BF16" || dtype === "F32" ? TYPES[dtype] : undefined;
  if (type === undefined) throw unsupported(`${name} is ${String(dtype)}; F16, BF16 and F32 are known here`);
  const [start = NaN, end = NaN] = numbersOf(offsets);
  return { type, shape: numbersOf(shape), offset: base + start, length: end - start };
}

function numbersOf(value: Json | undefined): number[] {
  return Array.isArray(value) ? value.map(Number) : [];
}

/** The numbers of a tensor, out of the bytes of its file. */
export function tensorNumbers(file: Uint8Array, { type, offset, length }: StoredTensor): Float32Array {
  const { buffer } = new Uint8Array(file.subarray(offset, offset + length));
  if (type === "float32") return new Float32Array(buffer);
  const halves = new Uint16Array(buffer);
  return type === "float16"
    ? Float32Array.from(halves, halfToNumber)
    : new Float32Array(Uint32Array.from(halves, (upper) => upper << 16).buffer);
}

function unsupported(why: string): CanopyError {
  return new CanopyError(`Cannot read weights: ${why}`, { code: "unsupported_weights", status: 400 });
}
