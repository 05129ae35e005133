import type { Buffer } from "node:buffer";

/** Longest text that is kept, in bytes. */
const MAX_BYTES = 256;
/** Texts that are kept: a power of two. */
const SLOTS = 512;

interface Known {
  /** As its bytes have it, Latin-1. */
  readonly raw: string;
  readonly text: string;
}

/**
 * Texts that come again and again: workers write few headers, each nearly always alike. What was read before is found
 * by its bytes and needs no new string, which on Bun is memory of its own (a relayed request had a dozen of them).
 */
export class KnownTexts {
  readonly #slots: (Known | undefined)[] = Array.from({ length: SLOTS }, () => undefined);
  readonly #textOf: (raw: string) => string;

  /** `textOf`: what is made of a text that was not read before. */
  constructor(textOf: (raw: string) => string = (raw) => raw) {
    this.#textOf = textOf;
  }

  /** The Latin-1 text of `data` in a range. */
  read(data: Buffer, start: number, end: number): string {
    if (end - start > MAX_BYTES) return this.#textOf(data.toString("latin1", start, end));
    let hash = end - start;
    for (let i = start; i < end; i++) hash = Math.imul(hash, 31) + data[i]! | 0;
    const slot = (hash ^ hash >>> 9) & SLOTS - 1;
    const known = this.#slots[slot];
    if (known !== undefined && isIn(known.raw, data, start, end)) return known.text;
    const raw = data.toString("latin1", start, end);
    const text = this.#textOf(raw);
    this.#slots[slot] = { raw, text };
    return text;
  }
}

function isIn(raw: string, data: Buffer, start: number, end: number): boolean {
  if (raw.length !== end - start) return false;
  for (let i = start; i < end; i++) if (raw.charCodeAt(i - start) !== data[i]) return false;
  return true;
}
