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
