const encoder = new TextEncoder();
const ARENA_BYTES = 65536;

/**
 * Encodes many short texts into views of one larger buffer: making a buffer for each costs more than the encoding.
 * Views are never written again.
 */
export class Utf8Arena {
  #bytes = new Uint8Array(ARENA_BYTES);
  #at = 0;

  encode(text: string): Uint8Array {
    const most = 3 * text.length;
    if (most > ARENA_BYTES / 4) return encoder.encode(text);
    if (this.#at + most > ARENA_BYTES) {
      this.#bytes = new Uint8Array(ARENA_BYTES);
      this.#at = 0;
    }
    const from = this.#at;
    this.#at += encoder.encodeInto(text, this.#bytes.subarray(from)).written;
    return this.#bytes.subarray(from, this.#at);
  }
}
