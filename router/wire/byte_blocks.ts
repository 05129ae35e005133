/** Size of the first block, and of the largest, in bytes. */
const FIRST_BYTES = 4 * 1024;
const LARGEST_BYTES = 1024 * 1024;

/**
 * Bytes that come in many pieces, copied into few blocks: thousands of pieces that lived together would each be carried
 * through several collections.
 */
export class ByteBlocks {
  readonly #blocks: Uint8Array<ArrayBuffer>[] = [];
  /** Bytes in all blocks. */
  #length = 0;
  /** Bytes in the last block. */
  #used = 0;

  get length(): number {
    return this.#length;
  }

  /** What was appended, in blocks of up to a megabyte. */
  get blocks(): readonly Uint8Array<ArrayBuffer>[] {
    const last = this.#blocks.at(-1);
    return last === undefined ? [] : [...this.#blocks.slice(0, -1), last.subarray(0, this.#used)];
  }

  append(bytes: Uint8Array): void {
    let from = 0;
    while (from < bytes.length) {
      let block = this.#blocks.at(-1);
      if (block === undefined || this.#used === block.length) {
        // As long as all that is there, so that short ones take little and long ones few.
        const wanted = Math.max(this.#length, FIRST_BYTES, bytes.length - from);
        block = new Uint8Array(Math.min(wanted, LARGEST_BYTES));
        this.#blocks.push(block);
        this.#used = 0;
      }
      const part = bytes.subarray(from, from + block.length - this.#used);
      block.set(part, this.#used);
      this.#used += part.length;
      this.#length += part.length;
      from += part.length;
    }
  }
}
