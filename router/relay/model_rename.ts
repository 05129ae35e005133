import type { AnswerRewrite } from "./answer_rewrite.ts";
import { type ByteRange, contentIs, walkObject } from "../wire/json_scan.ts";
import { applyEdits, type Edit } from "../wire/splice_json.ts";

const MODEL = new TextEncoder().encode("model");
const DATA = new TextEncoder().encode("data:");
const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;
const NEWLINE = 0x0a;
const SPACE = 0x20;

/** Writes the name that the client asked for into the top-level `model` of answers; everything else stays. */
export class ModelRename implements AnswerRewrite {
  readonly #name: Uint8Array;
  /** Start of the last event up to behind its `model`: an event that starts with these bytes has it there, too. */
  #prefix: Uint8Array = new Uint8Array(0);
  #inPrefix: ByteRange | undefined;

  constructor(askedModel: string) {
    this.#name = new TextEncoder().encode(JSON.stringify(askedModel));
  }

  /** A whole JSON answer; returned as it is when it is no object, has no `model`, or is not JSON at all. */
  answer(bytes: Uint8Array): Uint8Array {
    const edits: Edit[] = [];
    this.#addEdit(bytes, 0, bytes.length, edits);
    return applyEdits(bytes, edits);
  }

  /** Whole server-sent events. */
  events(bytes: Uint8Array): Uint8Array {
    const edits: Edit[] = [];
    let at = 0;
    while (at < bytes.length) {
      let end = bytes.indexOf(NEWLINE, at);
      if (end < 0) end = bytes.length;
      if (this.#inPrefix !== undefined && startsWith(bytes, at, this.#prefix)) {
        edits.push({ start: at + this.#inPrefix.start, end: at + this.#inPrefix.end, content: this.#name });
      } else if (startsWith(bytes, at, DATA)) this.#eventLine(bytes, at, end, edits);
      at = end + 1;
    }
    return applyEdits(bytes, edits);
  }

  #eventLine(bytes: Uint8Array, at: number, end: number, edits: Edit[]): void {
    let value = at + DATA.length;
    while (bytes[value] === SPACE) value++;
    const found = this.#addEdit(bytes, value, end, edits);
    if (found === undefined) return;
    this.#prefix = bytes.slice(at, found.end);
    this.#inPrefix = { start: found.start - at, end: found.end - at };
  }

  #addEdit(bytes: Uint8Array, start: number, end: number, edits: Edit[]): Edit | undefined {
    const json = bytes.subarray(start, end);
    if (firstByte(json) !== OPEN_OBJECT) return undefined;
    const range = findModel(json);
    if (range === undefined) return undefined;
    const edit = { start: start + range.start, end: start + range.end, content: this.#name };
    edits.push(edit);
    return edit;
  }
}

/** Engines write `model` near the front: the walk ends there, the long part behind it is never looked at. */
function findModel(json: Uint8Array): ByteRange | undefined {
  let found: ByteRange | undefined;
  try {
    walkObject(json, 0, (key, value) => {
      if (!contentIs(json, key, MODEL)) return false;
      if (json[value.start] === QUOTE) found = value;
      return true;
    });
  } catch {
    return undefined; // Not JSON: the client gets it as the worker sent it.
  }
  return found;
}

function firstByte(bytes: Uint8Array): number | undefined {
  return bytes.find((byte) => byte > SPACE);
}

function startsWith(bytes: Uint8Array, at: number, prefix: Uint8Array): boolean {
  for (let i = 0; i < prefix.length; i++) if (bytes[at + i] !== prefix[i]) return false;
  return true;
}
