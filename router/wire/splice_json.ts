import { Buffer } from "node:buffer";
import { copied, joinedInTurns } from "../../base/bytes.ts";
import type { Turns } from "../../base/turns.ts";
import {
  type ByteRange,
  contentIs,
  decodeString,
  JsonFault,
  skipSpace,
  walkArray,
  walkObject,
  walkObjectInTurns,
} from "./json_scan.ts";

/** Byte ranges of members of a body's top-level object; found in one scan, nothing else decoded. */
export interface TopLevel {
  /** Index behind the opening brace. */
  readonly openedAt: number;
  /** True for `{}`. */
  readonly empty: boolean;
  /** Values of the members asked for, in order; a duplicate key has several. */
  readonly values: ReadonlyMap<string, readonly ByteRange[]>;
}

/** What takes the place of a range. */
export interface Edit extends ByteRange {
  readonly content: Uint8Array | string;
}

const encoder = new TextEncoder();

/** Longest body that is edited in one turn. */
const ONE_TURN_BYTES = 1024 * 1024;

/** Names of members as a scan compares them, by the list that they came in: such lists are constants. */
const WANTED = new WeakMap<readonly string[], readonly Wanted[]>();

interface Wanted {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** Finds the named top-level members. Throws 400 `invalid_json` when `body` is not one JSON object. */
export function readTopLevel(body: Uint8Array, names: readonly string[]): TopLevel {
  const found = new Members(body, names);
  return found.end(walkObject(body, 0, found.visit));
}

/** `readTopLevel` for a long body. */
export function* readTopLevelInTurns(body: Uint8Array, names: readonly string[]): Turns<TopLevel> {
  const found = new Members(body, names);
  return found.end(yield* walkObjectInTurns(body, 0, found.visit));
}

/** The members of a body that are wanted, while it is walked. */
class Members {
  readonly #body: Uint8Array;
  readonly #wanted: readonly Wanted[];
  readonly #values = new Map<string, ByteRange[]>();
  #empty = true;

  constructor(body: Uint8Array, names: readonly string[]) {
    this.#body = body;
    let wanted = WANTED.get(names);
    if (wanted === undefined) {
      WANTED.set(names, wanted = names.map((name) => ({ name, bytes: encoder.encode(name) })));
    }
    this.#wanted = wanted;
  }

  readonly visit = (key: ByteRange, value: ByteRange): void => {
    this.#empty = false;
    for (const { name, bytes } of this.#wanted) {
      if (!contentIs(this.#body, key, bytes)) continue;
      const ranges = this.#values.get(name);
      if (ranges === undefined) this.#values.set(name, [value]);
      else ranges.push(value);
    }
  };

  /** `end`: the index behind the object. */
  end(end: number): TopLevel {
    const rest = skipSpace(this.#body, end);
    if (rest < this.#body.length) throw new JsonFault(rest, "the end");
    return { openedAt: this.#body.indexOf(0x7b) + 1, empty: this.#empty, values: this.#values };
  }
}

/** The text of a top-level string member (the last one, as JSON parsers take it); undefined for anything else. */
export function stringMember(body: Uint8Array, top: TopLevel, name: string): string | undefined {
  const range = top.values.get(name)?.at(-1);
  return range === undefined ? undefined : decodeString(body, range);
}

/** True when the top-level member is absent or `null`. */
export function isAbsent(body: Uint8Array, top: TopLevel, name: string): boolean {
  const range = top.values.get(name)?.at(-1);
  return range === undefined || body[range.start] === 0x6e;
}

/** The bytes of a top-level array's items; undefined when the member is not an array. */
export function arrayMember(body: Uint8Array, top: TopLevel, name: string): readonly ByteRange[] | undefined {
  const range = top.values.get(name)?.at(-1);
  if (range === undefined || body[range.start] !== 0x5b) return undefined;
  const items: ByteRange[] = [];
  walkArray(body, range.start, (item) => void items.push(item));
  return items;
}

/** Edits that give a top-level member (its name needs no escapes) this JSON text: every occurrence replaced, or a new first member. */
export function setMember(top: TopLevel, name: string, json: string): Edit[] {
  const ranges = top.values.get(name);
  if (ranges !== undefined) {
    return ranges.map(({ start, end }) => ({ start, end, content: json }));
  }
  const content = `"${name}":${json}${top.empty ? "" : ","}`;
  return [{ start: top.openedAt, end: top.openedAt, content }];
}

/** Edits that give several top-level members their JSON texts. */
export function setMembers(top: TopLevel, members: Readonly<Record<string, string>>): Edit[] {
  const edits: Edit[] = [];
  let absent = "";
  for (const name in members) {
    const json = members[name]!;
    if (top.values.has(name)) edits.push(...setMember(top, name, json));
    else absent += `${absent === "" ? "" : ","}"${name}":${json}`;
  }
  if (absent === "") return edits;
  edits.push({
    start: top.openedAt,
    end: top.openedAt,
    content: top.empty ? absent : `${absent},`,
  });
  return edits;
}

/** The bytes with all edits applied (they must not overlap); everything between them is copied unchanged. */
export function applyEdits(bytes: Uint8Array, edits: readonly Edit[]): Uint8Array {
  if (edits.length === 0) return bytes;
  return withOneEdit(bytes, edits) ?? copied(editedPieces(bytes, edits));
}

/** `applyEdits` for a long body. */
export function* applyEditsInTurns(bytes: Uint8Array, edits: readonly Edit[]): Turns<Uint8Array> {
  if (edits.length === 0) return bytes;
  if (bytes.length > ONE_TURN_BYTES) return yield* joinedInTurns(editedPieces(bytes, edits));
  return withOneEdit(bytes, edits) ?? copied(editedPieces(bytes, edits));
}

/** A single edit that adds bytes, as most do, without pieces, each of which costs more than to copy a short body. */
function withOneEdit(bytes: Uint8Array, [edit, second]: readonly Edit[]): Uint8Array | undefined {
  if (edit === undefined || second !== undefined) return undefined;
  const { start, end, content } = edit;
  const added = Buffer.byteLength(content) - (end - start);
  if (added < 0) return undefined;
  const whole = Buffer.allocUnsafe(bytes.length + added);
  whole.set(bytes, added);
  whole.copyWithin(0, added, added + start);
  if (typeof content === "string") whole.write(content, start);
  else whole.set(content, start);
  return whole;
}

function editedPieces(bytes: Uint8Array, edits: readonly Edit[]): Uint8Array[] {
  const sorted = edits.length === 1 ? edits : [...edits].sort((a, b) => a.start - b.start);
  const pieces: Uint8Array[] = [];
  let from = 0;
  for (const edit of sorted) {
    const { content } = edit;
    pieces.push(bytes.subarray(from, edit.start));
    pieces.push(typeof content === "string" ? encoder.encode(content) : content);
    from = edit.end;
  }
  pieces.push(bytes.subarray(from));
  return pieces;
}
