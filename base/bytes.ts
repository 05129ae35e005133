import type { Turns } from "./turns.ts";

/** Bytes that are copied in a turn: new memory costs a millisecond for two megabytes or so. */
const TURN_BYTES = 2 * 1024 * 1024;

/** Chunks in one piece of new memory. */
export function copied(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

/** Chunks as one piece; a single one uncopied. */
export function joined<Buffer extends ArrayBufferLike>(
  chunks: readonly Uint8Array<Buffer>[],
): Uint8Array<Buffer | ArrayBuffer> {
  const [first] = chunks;
  return chunks.length === 1 && first !== undefined ? first : copied(chunks);
}

/** `joined` for many bytes. */
export function* joinedInTurns<Buffer extends ArrayBufferLike>(
  chunks: readonly Uint8Array<Buffer>[],
): Turns<Uint8Array<Buffer | ArrayBuffer>> {
  const [first] = chunks;
  if (chunks.length === 1 && first !== undefined) return first;
  const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  let turnEnd = TURN_BYTES;
  for (const chunk of chunks) {
    for (let from = 0; from < chunk.length; from += TURN_BYTES) {
      if (at >= turnEnd) {
        turnEnd = at + TURN_BYTES;
        yield;
      }
      const part = chunk.subarray(from, from + TURN_BYTES);
      whole.set(part, at);
      at += part.length;
    }
  }
  return whole;
}
