import { Buffer, isAscii, isUtf8 } from "node:buffer";

const strict = new TextDecoder("utf-8", { fatal: true });
const strictWithMark = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes UTF-8; a byte order mark at the beginning is skipped unless it is to be kept. Throws a `TypeError`. */
export function decodeUtf8(bytes: Uint8Array, { keepMark = false } = {}): string {
  // Bun's decoder is several times slower than its buffers for what is not ASCII; Deno's is the faster one.
  if (!("Bun" in globalThis)) return (keepMark ? strictWithMark : strict).decode(bytes);
  // To ask a small array for its buffer makes one.
  if (isAscii(bytes)) return strict.decode(bytes);
  if (!isUtf8(bytes)) throw new TypeError("The bytes are not UTF-8");
  const marked = !keepMark && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8", marked ? 3 : 0);
}
