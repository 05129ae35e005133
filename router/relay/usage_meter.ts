import { Buffer } from "node:buffer";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { Turns } from "../../base/turns.ts";
import type { AnswerRewrite } from "./answer_rewrite.ts";
import { skipSpace, walkObject } from "../wire/json_scan.ts";
import { applyEditsInTurns, readTopLevelInTurns, setMembers } from "../wire/splice_json.ts";

/** Names behind which an answer says what it took: OpenAI's and Anthropic's, and SGLang's own. */
const USAGE = '"usage"';
const META_INFO = '"meta_info"';
const DATA = "data: {";
/** Bytes behind a stream's `meta_info` in which the index of its prompt stands. */
const INDEX_BYTES = 64;

const STREAM_OPTIONS = ["stream_options"];

/** Tokens of one answer, or of the answer to one prompt of several; an engine that reports twice reports the sum so far. */
interface Counted {
  readonly prompt: number;
  readonly completion: number;
}

/**
 * Reads from a relayed answer how many tokens it took. Of a stream that ends without having said so, every event that
 * came counts as one token: what its first event tells, as Anthropic's does, is the prompt, and not yet the answer.
 */
export class UsageMeter implements AnswerRewrite {
  readonly #hidesUsage: boolean;
  readonly #counted = new Map<number, Counted>();
  #events = 0;
  /** A report came behind the first event: it tells what was written up to it. */
  #told = false;

  /** `hidesUsage`: the client has not asked for a stream's usage, and does not get it. */
  constructor(hidesUsage: boolean) {
    this.#hidesUsage = hidesUsage;
  }

  /** Tokens of prompts and answers until now. */
  get tokens(): number {
    let prompts = 0;
    let completions = 0;
    for (const { prompt, completion } of this.#counted.values()) {
      prompts += prompt;
      completions += completion;
    }
    return prompts + (this.#told ? completions : Math.max(completions, this.#events));
  }

  answer(bytes: Uint8Array): Uint8Array {
    const buffer = bufferOf(bytes);
    for (const { value } of objectsNamed(buffer, USAGE)) this.#count(0, value);
    // SGLang's own answers: one object for each prompt.
    let prompt = 0;
    for (const { value } of objectsNamed(buffer, META_INFO)) this.#count(prompt++, value);
    return bytes;
  }

  events(bytes: Uint8Array): Uint8Array {
    const buffer = bufferOf(bytes);
    for (const { value, start, end } of objectsNamed(buffer, META_INFO)) {
      const behind = buffer.toString("latin1", end, end + INDEX_BYTES);
      const index = Number(/^,"index":\s*(\d+)/.exec(behind)?.[1] ?? 0);
      if (this.#count(index, value)) this.#tell(buffer, start);
    }
    let shown = bytes;
    for (const { value, start } of objectsNamed(buffer, USAGE)) {
      if (!this.#count(0, value)) continue;
      this.#tell(buffer, start);
      if (this.#hidesUsage) shown = withoutEvent(buffer, start);
    }
    if (!this.#told) this.#events += occurrences(buffer, DATA);
    return shown;
  }

  /** A report stands at `at` of these events. */
  #tell(buffer: Buffer, at: number): void {
    this.#told ||= this.#events + occurrences(buffer.subarray(0, at), DATA) > 1;
  }

  #count(index: number, usage: JsonObject): boolean {
    const completion = numberOf(usage, "completion_tokens") ?? numberOf(usage, "output_tokens");
    const prompt = numberOf(usage, "prompt_tokens") ?? numberOf(usage, "input_tokens") ??
      (completion === undefined ? numberOf(usage, "total_tokens") : undefined);
    if (prompt === undefined && completion === undefined) return false;
    // Anthropic's streams tell the prompt first and the answer last.
    const before = this.#counted.get(index);
    this.#counted.set(index, {
      prompt: Math.max(prompt ?? 0, before?.prompt ?? 0),
      completion: Math.max(completion ?? 0, before?.completion ?? 0),
    });
    return true;
  }
}

/** True for a request whose stream tells its usage only if it is asked to, and is not. */
export function hidesUsage(path: string, body: JsonObject): boolean {
  if (body["stream"] !== true || !/^\/v1\/(?:chat\/)?completions$/.test(path)) return false;
  const { stream_options: options } = body;
  return !(isJsonObject(options) && options["include_usage"] === true);
}

/** The bytes of a request, which asks for its stream's usage now. */
export function* askingForUsage(bytes: Uint8Array, body: JsonObject): Turns<Uint8Array> {
  const top = yield* readTopLevelInTurns(bytes, STREAM_OPTIONS);
  const { stream_options: options } = body;
  const asking = { ...(isJsonObject(options) ? options : {}), include_usage: true };
  return yield* applyEditsInTurns(bytes, setMembers(top, { stream_options: JSON.stringify(asking) }));
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The objects that members of this name have. In JSON's texts quotes are escaped: no text looks like a name. */
function* objectsNamed(buffer: Buffer, name: string): Generator<NonNullable<ReturnType<typeof objectAt>>> {
  for (let at = buffer.indexOf(name); at >= 0; at = buffer.indexOf(name, at + name.length)) {
    const found = objectAt(buffer, at + name.length);
    if (found !== undefined) yield found;
  }
}

/** The object behind the colon at `at`; undefined for anything else. */
function objectAt(
  buffer: Buffer,
  at: number,
): { readonly value: JsonObject; readonly start: number; readonly end: number } | undefined {
  const colon = skipSpace(buffer, at);
  const start = skipSpace(buffer, colon + 1);
  if (buffer[colon] !== 0x3a || buffer[start] !== 0x7b) return undefined;
  try {
    const end = walkObject(buffer, start, () => {});
    const value: unknown = JSON.parse(buffer.toString("utf8", start, end));
    return isJsonObject(value) ? { value, start, end } : undefined;
  } catch {
    return undefined;
  }
}

function numberOf(usage: JsonObject, name: string): number | undefined {
  const value = usage[name];
  return typeof value === "number" && value >= 0 ? Math.round(value) : undefined;
}

function occurrences(buffer: Buffer, text: string): number {
  let count = 0;
  for (let at = buffer.indexOf(text); at >= 0; at = buffer.indexOf(text, at + text.length)) count++;
  return count;
}

/** Whole events without the one at `at`, if that has nothing but its usage to tell. */
function withoutEvent(buffer: Buffer, at: number): Uint8Array {
  const start = Math.max(buffer.lastIndexOf("\n\n", at) + 2, buffer.lastIndexOf("\n\r\n", at) + 3);
  const from = start <= 2 ? 0 : start;
  const ends = [["\n\n", 2], ["\n\r\n", 3]] as const;
  const found = ends.map(([mark, length]) => ({ at: buffer.indexOf(mark, at), length }))
    .filter((end) => end.at >= 0).sort((a, b) => a.at - b.at)[0];
  const to = found === undefined ? buffer.length : found.at + found.length;
  if (!/"choices":\s*\[\]/.test(buffer.toString("latin1", from, to))) return buffer;
  return Buffer.concat([buffer.subarray(0, from), buffer.subarray(to)]);
}
