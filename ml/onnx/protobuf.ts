import { copied } from "../../base/bytes.ts";

/** Bytes of one field of a Protocol Buffers message; a message is its fields, joined. */
export type Field = Uint8Array;

const encoder = new TextEncoder();

function varint(value: number): number[] {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`Cannot encode a number: it must be a whole one, not negative: ${value}`);
  }
  const bytes = [];
  let left = value;
  for (; left >= 128; left = Math.floor(left / 128)) bytes.push(left % 128 + 128);
  return [...bytes, left];
}

/** A whole number that is not negative (int32, int64, enum). */
export function numberField(field: number, value: number): Field {
  return Uint8Array.from([...varint(field * 8), ...varint(value)]);
}

/** A float (32 bits). */
export function floatField(field: number, value: number): Field {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setFloat32(0, value, true);
  return copied([Uint8Array.from(varint(field * 8 + 5)), bytes]);
}

/** Bytes, a text, or a message given by its fields. */
export function bytesField(field: number, value: Uint8Array | string | readonly Field[]): Field {
  const bytes = typeof value === "string"
    ? encoder.encode(value)
    : value instanceof Uint8Array
    ? value
    : copied(value);
  return copied([Uint8Array.from([...varint(field * 8 + 2), ...varint(bytes.length)]), bytes]);
}
