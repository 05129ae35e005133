import { badRequest } from "../../base/errors.ts";
import { parseJsonExactly } from "../../base/int64.ts";
import type { Turns } from "../../base/turns.ts";
import { decodeUtf8 } from "./utf8.ts";
import { JsonFault, skipNameWithin, skipSpace, skipWithin, stringPart } from "./json_scan.ts";

/** Bytes that are parsed at once. */
const BATCH_BYTES = 64 * 1024;
/** Bytes that are read in a turn, a batch more or less. */
export const TURN_BYTES = 256 * 1024;
/** Most lists and objects in each other that are larger than a batch. */
const MAX_LARGE_DEPTH = 32;

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN = { object: 0x7b, list: 0x5b } as const;
const CLOSE = { object: 0x7d, list: 0x5d } as const;

/** Options of `parseJsonInTurns`. */
export interface TurnsOptions {
  /** Members whose whole numbers stay exact, for `readInt64`. */
  readonly exact: readonly string[];
  readonly batchBytes?: number | undefined;
  readonly turnBytes?: number | undefined;
}

/**
 * Parses a long JSON text like `JSON.parse`, a few hundred kilobytes a turn: what fits a batch is parsed by the runtime,
 * larger lists and objects item by item, larger strings in pieces. Throws `JsonFault`, 400 `invalid_json` for what
 * nests too deeply, a `TypeError` for what is not UTF-8.
 */
export function* parseJsonInTurns(bytes: Uint8Array, options: TurnsOptions): Turns<unknown> {
  const parser = new Parser(bytes, options);
  const start = skipSpace(bytes, hasMark(bytes) ? 3 : 0);
  const { value, end } = yield* parser.value(start, 0);
  const rest = skipSpace(bytes, end);
  if (rest < bytes.length) throw new JsonFault(rest, "the end");
  return value;
}

function hasMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

/** A value and the index behind it. */
interface Parsed {
  readonly value: unknown;
  readonly end: number;
}

class Parser {
  readonly #bytes: Uint8Array;
  readonly #exact: readonly string[];
  readonly #batchBytes: number;
  readonly #turnBytes: number;
  /** Bytes read in this turn. */
  #read = 0;

  constructor(
    bytes: Uint8Array,
    { exact, batchBytes = BATCH_BYTES, turnBytes = TURN_BYTES }: TurnsOptions,
  ) {
    this.#bytes = bytes;
    this.#exact = exact;
    this.#batchBytes = batchBytes;
    this.#turnBytes = turnBytes;
  }

  *value(at: number, depth: number): Turns<Parsed> {
    const end = skipWithin(this.#bytes, at, at + this.#batchBytes);
    if (end !== undefined) {
      yield* this.#count(end - at);
      return { value: this.#parse(at, end), end };
    }
    yield* this.#count(this.#batchBytes);
    if (depth >= MAX_LARGE_DEPTH) {
      throw badRequest(
        "body",
        `The body nests more than ${MAX_LARGE_DEPTH} large lists and objects: flatten it`,
        "invalid_json",
      );
    }
    switch (this.#bytes[at]) {
      case OPEN.object:
        return yield* this.#object(at + 1, depth + 1);
      case OPEN.list:
        return yield* this.#list(at + 1, depth + 1);
      case QUOTE:
        return yield* this.#string(at + 1);
      default:
        // A number of so many digits: the runtime says what it is.
        return this.#number(at);
    }
  }

  *#list(from: number, depth: number): Turns<Parsed> {
    const value: unknown[] = [];
    let at = skipSpace(this.#bytes, from);
    while (true) {
      const batch = this.#batch(
        at,
        CLOSE.list,
        (item) => skipWithin(this.#bytes, item, at + this.#batchBytes),
      );
      if (batch.end > at) {
        yield* this.#count(batch.end - at);
        for (const item of this.#parse(at, batch.end, "[]") as unknown[]) value.push(item);
        if (batch.closed !== undefined) return { value, end: batch.closed };
        at = batch.next;
        continue;
      }
      const item = yield* this.value(at, depth);
      value.push(item.value);
      const next = this.#behind(item.end, CLOSE.list);
      if (next.closed) return { value, end: next.at };
      at = next.at;
    }
  }

  *#object(from: number, depth: number): Turns<Parsed> {
    const value: Record<string, unknown> = {};
    let at = skipSpace(this.#bytes, from);
    while (true) {
      const batch = this.#batch(at, CLOSE.object, (item) => {
        const named = skipNameWithin(this.#bytes, item, at + this.#batchBytes);
        return named === undefined ? undefined : skipWithin(this.#bytes, named, at + this.#batchBytes);
      });
      if (batch.end > at) {
        yield* this.#count(batch.end - at);
        for (const [name, member] of Object.entries(this.#parse(at, batch.end, "{}") as object)) {
          setMember(value, name, member);
        }
        if (batch.closed !== undefined) return { value, end: batch.closed };
        at = batch.next;
        continue;
      }
      if (this.#bytes[at] !== QUOTE) throw new JsonFault(at, "a property name in double quotes");
      const name = yield* this.#string(at + 1);
      const colon = skipSpace(this.#bytes, name.end);
      if (this.#bytes[colon] !== 0x3a /* : */) throw new JsonFault(colon, '":"');
      const member = yield* this.value(skipSpace(this.#bytes, colon + 1), depth);
      setMember(value, String(name.value), member.value);
      const next = this.#behind(member.end, CLOSE.object);
      if (next.closed) return { value, end: next.at };
      at = next.at;
    }
  }

  /** As many items as fit a batch: `end` is behind the last one, `next` at the one that follows, `closed` behind all. */
  #batch(
    from: number,
    closer: number,
    skip: (at: number) => number | undefined,
  ): { readonly end: number; readonly next: number; readonly closed: number | undefined } {
    let end = from;
    let next = from;
    while (true) {
      const item = skip(next);
      if (item === undefined) return { end, next, closed: undefined };
      end = item;
      const behind = this.#behind(item, closer);
      if (behind.closed) return { end, next: behind.at, closed: behind.at };
      next = behind.at;
    }
  }

  /** What follows an item: the next one, or what is behind the closing bracket. */
  #behind(end: number, closer: number): { readonly at: number; readonly closed: boolean } {
    const at = skipSpace(this.#bytes, end);
    if (this.#bytes[at] === closer) return { at: at + 1, closed: true };
    if (this.#bytes[at] !== COMMA) throw new JsonFault(at, `"," or "${String.fromCharCode(closer)}"`);
    return { at: skipSpace(this.#bytes, at + 1), closed: false };
  }

  *#string(from: number): Turns<Parsed> {
    let value = "";
    let at = from;
    while (true) {
      // As long as a turn has: V8's collections copy young strings of up to 128 KB, and only note longer ones.
      const { end, closed } = stringPart(this.#bytes, at, at + this.#turnBytes);
      yield* this.#count(end - at);
      value += String(this.#parse(at, end, '""'));
      if (closed) return { value, end: end + 1 };
      at = end;
    }
  }

  #number(at: number): Parsed {
    const end = skipWithin(this.#bytes, at, this.#bytes.length) ?? this.#bytes.length;
    return { value: this.#parse(at, end), end };
  }

  /** Has the runtime parse a part, between two brackets or quotes. */
  #parse(start: number, end: number, around = ""): unknown {
    const text = decodeUtf8(this.#bytes.subarray(start, end), { keepMark: true });
    return parseJsonExactly((around[0] ?? "") + text + (around[1] ?? ""), this.#exact);
  }

  *#count(bytes: number): Turns<void> {
    this.#read += bytes;
    if (this.#read < this.#turnBytes) return;
    this.#read = 0;
    yield;
  }
}

/** As `JSON.parse` does: also `__proto__` is a member like others. */
function setMember(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== "__proto__") object[name] = value;
  else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}
