/** Bytes of the first pieces of a prompt; further ones are a sixteenth of what is before them. */
const LEAST_PIECE_BYTES = 512;
const PIECE_SHARE = 16;
/** A longer beginning says nothing more about where a prompt's prefix is. */
const MAX_PREFIX_BYTES = 1 << 20;

/**
 * The beginning of a prompt as far as policies look at it: hashes of its first pieces, each with all before it. They are
 * computed when somebody asks for them, and only as far as asked. Prompts that begin alike have equal first hashes, if
 * they are given in the same form: JSON as it came, or token ids.
 */
export class PromptPrefix {
  #open: () => Source;
  #source: Source | undefined;
  readonly #hashes: number[] = [];
  #released = false;
  #hash = 0;
  #end = 0;

  private constructor(open: () => Source) {
    this.#open = open;
  }

  /** Of a request's body, from the byte at which its prompt begins; what stands behind the prompt counts with it. */
  static ofBody(body: Uint8Array, findStart: (body: Uint8Array) => number | undefined): PromptPrefix {
    return new PromptPrefix(() => bytesSource(body, findStart(body) ?? body.length));
  }

  static ofTokens(ids: readonly number[]): PromptPrefix {
    const mix: Source["mix"] = (hash, from, to) => {
      for (let i = from >> 2; i < to >> 2; i++) hash = mixWord(hash, ids[i]!);
      return hash;
    };
    return new PromptPrefix(() => ({ bytes: 4 * ids.length, mix }));
  }

  /** Of a prompt that clients would write like this in a body. */
  static ofJson(value: unknown): PromptPrefix {
    return new PromptPrefix(() => bytesSource(encoder.encode(JSON.stringify(value)), 0));
  }

  /** Length of the prompt; 4 for each token id, 0 where a body has none. */
  get bytes(): number {
    return this.#opened.bytes;
  }

  /** Forgets the prompt itself: what nobody has asked for so far is not known any more. */
  release(): void {
    const bytes = this.#source?.bytes ?? 0;
    this.#open = () => this.#source!;
    this.#source = { bytes, mix: () => 0 };
    this.#released = true;
  }

  get #opened(): Source {
    return this.#source ??= this.#open();
  }

  /** Hash of the first pieces up to the n-th, from 0; undefined for one that the prompt does not fill. */
  piece(n: number): number | undefined {
    const { bytes, mix } = this.#opened;
    while (this.#hashes.length <= n) {
      if (this.#released) return undefined;
      const end = this.#end + Math.max(LEAST_PIECE_BYTES, (this.#end / PIECE_SHARE) & ~3);
      if (end > Math.min(bytes, MAX_PREFIX_BYTES)) return undefined;
      this.#hash = mix(this.#hash, this.#end, end);
      this.#end = end;
      this.#hashes.push(this.#hash);
    }
    return this.#hashes[n];
  }

  /** Hash of the first `bytes` (a multiple of 4), or of the whole prompt if it is shorter; undefined for an empty one. */
  upTo(bytes: number): number | undefined {
    const source = this.#opened;
    return source.bytes === 0 || this.#released ? undefined : source.mix(0, 0, Math.min(bytes, source.bytes));
  }
}

interface Source {
  readonly bytes: number;
  /** Mixes a range into a hash; ranges but the last begin and end at multiples of 4. */
  readonly mix: (hash: number, from: number, to: number) => number;
}

const encoder = new TextEncoder();

function bytesSource(bytes: Uint8Array, start: number): Source {
  const view = new DataView(bytes.buffer, bytes.byteOffset + start, bytes.length - start);
  return { bytes: view.byteLength, mix: (hash, from, to) => mixBytes(hash, view, from, to) };
}

/** One step of MurmurHash3 (Appleby 2011). */
function mixWord(hash: number, word: number): number {
  const k = Math.imul(word, 0xcc9e2d51);
  const h = hash ^ Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

function mixBytes(hash: number, view: DataView, from: number, to: number): number {
  let at = from;
  for (; at + 4 <= to; at += 4) hash = mixWord(hash, view.getInt32(at, true));
  if (at < to) {
    let rest = 0;
    for (; at < to; at++) rest = (rest << 8) | view.getUint8(at);
    hash = mixWord(hash, rest);
  }
  return hash;
}
