import { CanopyError } from "../../base/errors.ts";
import type { Turns } from "../../base/turns.ts";

/** A range of bytes: `start` inclusive, `end` exclusive. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Called for each member of the top-level object; the key's range is without its quotes. True ends the walk. */
export type MemberVisitor = (key: ByteRange, value: ByteRange) => boolean | void;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const ESCAPES = new Set(Array.from('"\\/bfnrt', (letter) => letter.charCodeAt(0)));
const STRING_RULE = "a string that is closed, with line breaks and quotes escaped";
const LITERALS = ["true", "false", "null"].map((text) => new TextEncoder().encode(text));

/** The 400 `invalid_json` for bytes that break JSON's grammar (RFC 8259), and where. */
export class JsonFault extends CanopyError {
  /** Index of the first byte that cannot be. */
  readonly at: number;
  /** Such as `a value` or `"," or "}"`. */
  readonly expected: string;

  constructor(at: number, expected: string) {
    const message = `Cannot read the body as JSON: at byte ${at} ${expected} is expected; send valid JSON`;
    super(message, { code: "invalid_json", status: 400 });
    this.at = at;
    this.expected = expected;
  }
}

/**
 * Finds the first fault of bytes that `JSON.parse` has refused; undefined when there is none, and depth or size was too
 * much for it. The runtimes' own messages differ, and Bun's name no position.
 */
export function findJsonFault(bytes: Uint8Array): JsonFault | undefined {
  try {
    const rest = skipSpace(bytes, skipValue(bytes, skipSpace(bytes, 0)));
    return rest < bytes.length ? new JsonFault(rest, "the end") : undefined;
  } catch (error) {
    if (error instanceof JsonFault) return error;
    throw error;
  }
}

/**
 * Walks the members of the JSON object in `bytes`, without decoding them, up to its closing brace; returns the
 * index behind that brace, or behind the value at which the visitor ended the walk.
 * Throws `JsonFault` where the grammar is broken before that; UTF-8 is not checked.
 */
export function walkObject(bytes: Uint8Array, start: number, visit: MemberVisitor): number {
  let at = skipSpace(bytes, start);
  if (bytes[at] !== OPEN_OBJECT) throw new JsonFault(at, "an object");
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === CLOSE_OBJECT) return at + 1;
  while (true) {
    const keyEnd = skipString(bytes, at);
    const key = { start: at + 1, end: keyEnd - 1 };
    const valueStart = skipSpace(bytes, skipColon(bytes, keyEnd));
    const valueEnd = skipValue(bytes, valueStart);
    if (visit(key, { start: valueStart, end: valueEnd }) === true) return valueEnd;
    at = skipSpace(bytes, valueEnd);
    if (bytes[at] === CLOSE_OBJECT) return at + 1;
    if (bytes[at] !== COMMA) throw new JsonFault(at, '"," or "}"');
    at = skipSpace(bytes, at + 1);
  }
}

/** Bytes that are skipped in a turn. */
const TURN_BYTES = 256 * 1024;
/** Most lists and objects in each other that are skipped in turns. */
const MAX_DEPTH = 32;

/** `walkObject` for a long text. */
export function* walkObjectInTurns(bytes: Uint8Array, start: number, visit: MemberVisitor): Turns<number> {
  let at = skipSpace(bytes, start);
  if (bytes[at] !== OPEN_OBJECT) throw new JsonFault(at, "an object");
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === CLOSE_OBJECT) return at + 1;
  while (true) {
    const keyEnd = skipString(bytes, at);
    const key = { start: at + 1, end: keyEnd - 1 };
    const valueStart = skipSpace(bytes, skipColon(bytes, keyEnd));
    const valueEnd = yield* skipInTurns(bytes, valueStart, 0);
    if (visit(key, { start: valueStart, end: valueEnd }) === true) return valueEnd;
    at = skipSpace(bytes, valueEnd);
    if (bytes[at] === CLOSE_OBJECT) return at + 1;
    if (bytes[at] !== COMMA) throw new JsonFault(at, '"," or "}"');
    at = skipSpace(bytes, at + 1);
  }
}

/** The index behind the value that starts at `start`. */
function* skipInTurns(bytes: Uint8Array, start: number, depth: number): Turns<number> {
  const end = skipWithin(bytes, start, start + TURN_BYTES);
  if (end !== undefined) return end;
  const opener = bytes[start];
  if (opener === QUOTE) {
    let part = stringPart(bytes, start + 1, start + TURN_BYTES);
    for (; !part.closed; part = stringPart(bytes, part.end, part.end + TURN_BYTES)) yield;
    return part.end + 1;
  }
  if ((opener !== OPEN_OBJECT && opener !== OPEN_ARRAY) || depth >= MAX_DEPTH) return skipValue(bytes, start);
  const closer = opener === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_ARRAY;
  let at = skipSpace(bytes, start + 1);
  if (bytes[at] === closer) return at + 1;
  let turnEnd = at + TURN_BYTES;
  while (true) {
    if (closer === CLOSE_OBJECT) at = skipSpace(bytes, skipColon(bytes, skipString(bytes, at)));
    const behind = skipWithin(bytes, at, turnEnd);
    if (behind === undefined) {
      yield;
      at = yield* skipInTurns(bytes, at, depth + 1);
      turnEnd = at + TURN_BYTES;
    } else at = behind;
    at = skipSpace(bytes, at);
    if (bytes[at] === closer) return at + 1;
    if (bytes[at] !== COMMA) throw new JsonFault(at, `"," or "${String.fromCharCode(closer)}"`);
    at = skipSpace(bytes, at + 1);
  }
}

/**
 * The index at which the value of the first member with one of these names begins; undefined where there is none, or
 * the grammar is broken before it. What is behind it is not looked at.
 */
export function findValue(bytes: Uint8Array, names: readonly Uint8Array[]): number | undefined {
  try {
    let at = skipSpace(bytes, 0);
    if (bytes[at] !== OPEN_OBJECT) return undefined;
    do {
      const keyStart = skipSpace(bytes, at + 1);
      const keyEnd = skipString(bytes, keyStart);
      const key = { start: keyStart + 1, end: keyEnd - 1 };
      const start = skipSpace(bytes, skipColon(bytes, keyEnd));
      if (names.some((name) => contentIs(bytes, key, name))) return start;
      at = skipSpace(bytes, skipValue(bytes, start));
    } while (bytes[at] === COMMA);
    return undefined;
  } catch (error) {
    if (error instanceof JsonFault) return undefined;
    throw error;
  }
}

/** Walks the items of the JSON array that starts at `start`; throws as `walkObject` does. */
export function walkArray(bytes: Uint8Array, start: number, visit: (item: ByteRange) => void): void {
  let at = skipSpace(bytes, start + 1);
  if (bytes[at] === CLOSE_ARRAY) return;
  while (true) {
    const end = skipValue(bytes, at);
    visit({ start: at, end });
    at = skipSpace(bytes, end);
    if (bytes[at] === CLOSE_ARRAY) return;
    if (bytes[at] !== COMMA) throw new JsonFault(at, '"," or "]"');
    at = skipSpace(bytes, at + 1);
  }
}

/** The index of the first byte at or behind `at` that is not JSON white space. */
export function skipSpace(bytes: Uint8Array, at: number): number {
  while (true) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
    at++;
  }
}

/** True when the key or string content in `range` (without quotes) is `name`, escapes understood. */
export function contentIs(bytes: Uint8Array, range: ByteRange, name: Uint8Array): boolean {
  const { start, end } = range;
  if (end - start === name.length) {
    let same = true;
    for (let i = 0; same && i < name.length; i++) same = bytes[start + i] === name[i];
    if (same) return true;
  }
  // An escaped spelling of a name is longer than the name, at most six bytes a letter.
  if (end - start <= name.length || end - start > 6 * name.length) return false;
  let escape = start;
  while (escape < end && bytes[escape] !== BACKSLASH) escape++;
  if (escape === end) return false;
  return decodeString(bytes, { start: start - 1, end: end + 1 }) === new TextDecoder().decode(name);
}

/** The text of the JSON string in `range` (with its quotes); undefined when the value is not a string. */
export function decodeString(bytes: Uint8Array, range: ByteRange): string | undefined {
  if (bytes[range.start] !== QUOTE) return undefined;
  const value: unknown = JSON.parse(new TextDecoder().decode(bytes.subarray(range.start, range.end)));
  return typeof value === "string" ? value : undefined;
}

/**
 * The index behind the value that starts at `start`, in a few steps more than `limit` bytes; undefined where it goes on
 * there. Throws `JsonFault`.
 */
export function skipWithin(bytes: Uint8Array, start: number, limit: number): number | undefined {
  const end = skipValue(bytes, start, limit);
  return end < 0 ? undefined : end;
}

/** The index behind the property name that starts at `start` and its colon; as `skipWithin`. */
export function skipNameWithin(bytes: Uint8Array, start: number, limit: number): number | undefined {
  const end = skipString(bytes, start, limit);
  return end < 0 ? undefined : skipSpace(bytes, skipColon(bytes, end));
}

/**
 * A part of the string whose content goes on at `from`: where it ends, between two characters and escapes, and whether
 * that is the closing quote. Throws `JsonFault`.
 */
export function stringPart(
  bytes: Uint8Array,
  from: number,
  limit: number,
): { readonly end: number; readonly closed: boolean } {
  let at = from;
  while (true) {
    const byte = bytes[at];
    if (byte === QUOTE) return { end: at, closed: true };
    if (byte === undefined || byte < 0x20) throw new JsonFault(at, STRING_RULE);
    // The bytes of one character stay together.
    if (at >= limit && (byte & 0xc0) !== 0x80) return { end: at, closed: false };
    at = byte === BACKSLASH ? skipEscape(bytes, at) : at + 1;
  }
}

/** Iterative, so that depth costs memory (a byte range bounded by the body), never the stack. -1: it ends behind `limit`. */
function skipValue(bytes: Uint8Array, start: number, limit = bytes.length): number {
  let at = start;
  const closers: number[] = [];
  while (true) {
    const byte = bytes[at];
    if (at > limit) return -1;
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      const closer = byte === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_ARRAY;
      at = skipSpace(bytes, at + 1);
      if (bytes[at] === closer) at++;
      else {
        closers.push(closer);
        if (closer !== CLOSE_OBJECT) continue;
        const name = skipString(bytes, at, limit);
        if (name < 0) return -1;
        at = skipSpace(bytes, skipColon(bytes, name));
        continue;
      }
    } else if (byte === QUOTE) {
      at = skipString(bytes, at, limit);
      if (at < 0) return -1;
    } else at = skipScalar(bytes, at);
    while (true) {
      const closer = closers.at(-1);
      if (closer === undefined) return at;
      at = skipSpace(bytes, at);
      if (bytes[at] === closer) {
        closers.pop();
        at++;
        continue;
      }
      if (bytes[at] !== COMMA) throw new JsonFault(at, `"," or "${String.fromCharCode(closer)}"`);
      at = skipSpace(bytes, at + 1);
      if (closer !== CLOSE_OBJECT) break;
      const name = skipString(bytes, at, limit);
      if (name < 0) return -1;
      at = skipSpace(bytes, skipColon(bytes, name));
      break;
    }
  }
}

function skipColon(bytes: Uint8Array, start: number): number {
  const at = skipSpace(bytes, start);
  if (bytes[at] !== COLON) throw new JsonFault(at, '":"');
  return at + 1;
}

/** -1: it goes on behind `limit`. */
function skipString(bytes: Uint8Array, start: number, limit = bytes.length): number {
  if (bytes[start] !== QUOTE) throw new JsonFault(start, "a property name in double quotes");
  let at = start + 1;
  while (true) {
    const byte = bytes[at];
    if (byte === QUOTE) return at + 1;
    if (at > limit) return -1;
    if (byte === undefined || byte < 0x20) throw new JsonFault(at, STRING_RULE);
    at = byte === BACKSLASH ? skipEscape(bytes, at) : at + 1;
  }
}

function skipEscape(bytes: Uint8Array, start: number): number {
  const byte = bytes[start + 1];
  if (byte !== 0x75 /* u */) {
    if (byte === undefined || !ESCAPES.has(byte)) throw new JsonFault(start, STRING_RULE);
    return start + 2;
  }
  for (let i = 2; i < 6; i++) if (!isHexDigit(bytes[start + i])) throw new JsonFault(start, STRING_RULE);
  return start + 6;
}

function skipScalar(bytes: Uint8Array, start: number): number {
  const byte = bytes[start];
  const literal = isDigit(byte) ? undefined : LITERALS.find(([first]) => first === byte);
  if (literal === undefined) return skipNumber(bytes, start);
  if (literal.some((byte, i) => byte !== bytes[start + i])) throw new JsonFault(start, "a value");
  return start + literal.length;
}

/** The longest beginning that is a number: what is wrong with the rest is seen by what follows a value. */
function skipNumber(bytes: Uint8Array, start: number): number {
  let at = bytes[start] === 0x2d /* - */ ? start + 1 : start;
  if (!isDigit(bytes[at])) throw new JsonFault(start, "a value");
  at = bytes[at] === 0x30 /* 0 */ ? at + 1 : skipDigits(bytes, at);
  if (bytes[at] === 0x2e /* . */ && isDigit(bytes[at + 1])) at = skipDigits(bytes, at + 1);
  if (bytes[at] !== 0x65 /* e */ && bytes[at] !== 0x45 /* E */) return at;
  const sign = bytes[at + 1];
  const digits = sign === 0x2b /* + */ || sign === 0x2d /* - */ ? at + 2 : at + 1;
  return isDigit(bytes[digits]) ? skipDigits(bytes, digits) : at;
}

function skipDigits(bytes: Uint8Array, start: number): number {
  let at = start;
  while (isDigit(bytes[at])) at++;
  return at;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function isHexDigit(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const lower = byte | 0x20;
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66);
}
