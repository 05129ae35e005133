import type { Tensor } from "onnxruntime-node";

/** The numbers of a float32 or float16 tensor. */
export function toFloat32(tensor: Tensor): Float32Array {
  if (tensor.type === "float32") return tensor.data as Float32Array;
  if (tensor.type !== "float16") throw new TypeError(`Cannot read ${tensor.type} as numbers`);
  return Float32Array.from(halfBits(tensor), halfToNumber);
}

/** The bits of a float16 tensor. It holds a Float16Array where JavaScript has that, else a Uint16Array. */
export function halfBits(tensor: Tensor): Uint16Array {
  const data = tensor.data as Uint16Array;
  return new Uint16Array(data.buffer, data.byteOffset, data.length);
}

/** The number that 16 bits stand for (IEEE 754 binary16). */
export function halfToNumber(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
