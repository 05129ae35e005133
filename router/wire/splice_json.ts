import {
  type ByteRange,
  contentIs,
  decodeString,
  JsonFault,
  skipSpace,
  walkArray,
  walkObject,
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

/** Bytes that take the place of a range. */
export interface Edit extends ByteRange {
  readonly bytes: Uint8Array;
}

const encoder = new TextEncoder();

/** Names of members as a scan compares them, by the list that they came in: such lists are constants. */
const WANTED = new WeakMap<
  readonly string[],
  readonly { readonly name: string; readonly bytes: Uint8Array }[]
>();

/** Finds the named top-level members. Throws 400 `invalid_json` when `body` is not one JSON object. */
export function readTopLevel(body: Uint8Array, names: readonly string[]): TopLevel {
  let wanted = WANTED.get(names);
  if (wanted === undefined) {
    WANTED.set(names, wanted = names.map((name) => ({ name, bytes: encoder.encode(name) })));
  }
  const values = new Map<string, ByteRange[]>();
  let empty = true;
  const end = walkObject(body, 0, (key, value) => {
    empty = false;
    for (const { name, bytes } of wanted) {
      if (!contentIs(body, key, bytes)) continue;
      const ranges = values.get(name);
      if (ranges === undefined) values.set(name, [value]);
      else ranges.push(value);
    }
  });
  const rest = skipSpace(body, end);
  if (rest < body.length) throw new JsonFault(rest, "the end");
  return { openedAt: body.indexOf(0x7b) + 1, empty, values };
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

/** Edits that give a top-level member this JSON text: every occurrence replaced, or a new first member. */
export function setMember(top: TopLevel, name: string, json: string): Edit[] {
  const ranges = top.values.get(name);
  if (ranges !== undefined) {
    const bytes = encoder.encode(json);
    return ranges.map(({ start, end }) => ({ start, end, bytes }));
  }
  const text = `${JSON.stringify(name)}:${json}${top.empty ? "" : ","}`;
  return [{ start: top.openedAt, end: top.openedAt, bytes: encoder.encode(text) }];
}

/** Edits that give several top-level members their JSON texts. */
export function setMembers(top: TopLevel, members: Readonly<Record<string, string>>): Edit[] {
  const edits: Edit[] = [];
  const absent: string[] = [];
  for (const [name, json] of Object.entries(members)) {
    if (top.values.has(name)) edits.push(...setMember(top, name, json));
    else absent.push(`${JSON.stringify(name)}:${json}`);
  }
  if (absent.length === 0) return edits;
  const text = `${absent.join(",")}${top.empty ? "" : ","}`;
  return [...edits, { start: top.openedAt, end: top.openedAt, bytes: encoder.encode(text) }];
}

/** The bytes with all edits applied (they must not overlap); everything between them is copied unchanged. */
export function applyEdits(bytes: Uint8Array, edits: readonly Edit[]): Uint8Array {
  if (edits.length === 0) return bytes;
  const sorted = edits.length === 1 ? edits : [...edits].sort((a, b) => a.start - b.start);
  const growth = sorted.reduce((sum, edit) => sum + edit.bytes.length - (edit.end - edit.start), 0);
  const result = new Uint8Array(bytes.length + growth);
  let from = 0;
  let to = 0;
  for (const edit of sorted) {
    result.set(bytes.subarray(from, edit.start), to);
    to += edit.start - from;
    result.set(edit.bytes, to);
    to += edit.bytes.length;
    from = edit.end;
  }
  result.set(bytes.subarray(from), to);
  return result;
}
