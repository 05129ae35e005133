/** One field of a message: its number, and where its bytes are; of a number its value. */
interface ReadField {
  readonly field: number;
  readonly start: number;
  readonly end: number;
  readonly value: number;
}

/** Bytes that are read at once: most fields are small, and the large ones are stepped over. */
const WINDOW_BYTES = 64 * 1024;
const LONGEST_VARINT = 10;

/** Reads Protocol Buffers messages of any size out of a file, stepping over fields that nobody wants. */
export class ProtobufReader {
  /** Fills memory from a position; gives the bytes that there were. */
  readonly #read: (at: number, into: Uint8Array) => number;
  readonly #window = new Uint8Array(WINDOW_BYTES);
  #from = 0;
  #length = 0;

  constructor(read: (at: number, into: Uint8Array) => number) {
    this.#read = read;
  }

  /** The fields of the message between two positions; `Infinity`: to the end. Throws `TypeError` for anything else. */
  *fields(from: number, to: number): Generator<ReadField> {
    let at = from;
    while (at < to && this.#has(at)) {
      const [tag, after] = this.#varint(at);
      const [field, kind] = [Math.floor(tag / 8), tag % 8];
      const [value, start] = kind === 0 || kind === 2 ? this.#varint(after) : [0, after];
      const length = kind === 2 ? value : kind === 1 ? 8 : kind === 5 ? 4 : 0;
      if (field === 0 || ![0, 1, 2, 5].includes(kind) || start + length > to) {
        throw new TypeError(`No Protocol Buffers message: byte ${at} starts no field`);
      }
      at = start + length;
      yield { field, start, end: at, value };
    }
  }

  /** The text between two positions. */
  text(from: number, to: number): string {
    const bytes = new Uint8Array(to - from);
    for (let at = 0; at < bytes.length; at++) bytes[at] = this.#byte(from + at);
    return new TextDecoder().decode(bytes);
  }

  /** A whole number and the position behind it; beyond 2^53 it is not exact. */
  #varint(at: number): [value: number, after: number] {
    let value = 0;
    for (let index = 0; index < LONGEST_VARINT; index++) {
      const byte = this.#byte(at + index);
      value += (byte % 128) * 128 ** index;
      if (byte < 128) return [value, at + index + 1];
    }
    throw new TypeError(`No Protocol Buffers message: the number at byte ${at} has no end`);
  }

  #byte(at: number): number {
    if (!this.#has(at)) throw new TypeError(`No Protocol Buffers message: it ends at byte ${at}`);
    return this.#window[at - this.#from]!;
  }

  #has(at: number): boolean {
    if (at < this.#from || at >= this.#from + this.#length) {
      this.#from = at;
      this.#length = this.#read(at, this.#window);
    }
    return this.#length > 0;
  }
}
