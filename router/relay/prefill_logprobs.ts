import { type ByteRange, contentIs, walkArray, walkObject } from "../wire/json_scan.ts";
import { applyEdits, type Edit } from "../wire/splice_json.ts";

const encoder = new TextEncoder();
/** In `/generate`'s `meta_info`: what only the prefill server computes. */
const PROMPT_LISTS = ["input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs"];
/** In `meta_info`: a list in which decode before 0.5.23 lacks the token that prefill has made. */
const CHOSEN_IDS = "output_token_ids_logprobs";
const CHOSEN = "output_token_logprobs";
/** In `logprobs` of a completion's choice: parallel lists, the prompt's tokens first where it is echoed. */
const CHOICE_LISTS = ["text_offset", "token_logprobs", "tokens", "top_logprobs"];

const COMMA = encoder.encode(",");
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const NEWLINE = 0x0a;
const DATA = "data: ";

type Lists = ReadonlyMap<string, readonly Uint8Array[]>;

/**
 * The log-probabilities in a prefill server's answer that decode's answer lacks: those of the prompt and, in some
 * lists, the first token's. Numbers are copied as they are written.
 */
export class PrefillLogprobs {
  readonly #completion: boolean;
  readonly #ofPrompt = new Map<number, Lists>();
  /** Choices of a streamed completion whose first event has passed. */
  readonly #begun = new Set<number>();

  /** `answer`: the prefill server's whole answer to `path`, JSON or events. */
  constructor(path: string, answer: Uint8Array) {
    this.#completion = path === "/v1/completions";
    if (answer[0] === OPEN_OBJECT || answer[0] === OPEN_ARRAY) this.#learn(answer, whole(answer));
    else for (const range of eventsOf(answer)) this.#learn(answer, range);
  }

  /** Decode's whole JSON answer, completed. */
  answer(bytes: Uint8Array): Uint8Array {
    return applyEdits(bytes, this.#edits(bytes, whole(bytes)));
  }

  /** Whole events of decode's stream, completed. */
  events(bytes: Uint8Array): Uint8Array {
    return applyEdits(bytes, eventsOf(bytes).flatMap((range) => this.#edits(bytes, range)));
  }

  #learn(bytes: Uint8Array, range: ByteRange): void {
    for (const { index, at } of this.#items(bytes, range)) {
      const lists = new Map<string, readonly Uint8Array[]>();
      for (const text of this.#completion ? CHOICE_LISTS : [...PROMPT_LISTS, CHOSEN_IDS]) {
        const list = items(bytes, member(bytes, at, text));
        if (list !== undefined) lists.set(text, this.#completion ? list.slice(0, -1) : list);
      }
      if (!this.#ofPrompt.has(index)) this.#ofPrompt.set(index, lists);
    }
  }

  #edits(bytes: Uint8Array, range: ByteRange): Edit[] {
    return this.#items(bytes, range).flatMap(({ index, at }): Edit[] => {
      const lists = this.#ofPrompt.get(index);
      if (lists === undefined) return [];
      if (!this.#completion) {
        return [...prepended(bytes, at, PROMPT_LISTS, lists), ...firstChosen(bytes, at, lists)];
      }
      if (this.#begun.has(index)) return [];
      this.#begun.add(index);
      return prepended(bytes, at, CHOICE_LISTS, lists);
    });
  }

  /** The objects that hold the lists, one for each prompt or choice. */
  #items(bytes: Uint8Array, range: ByteRange): Item[] {
    try {
      return this.#completion ? choicesOf(bytes, range) : metasOf(bytes, range);
    } catch {
      return []; // Not JSON, as `[DONE]`: it passes as the server sent it.
    }
  }
}

interface Item {
  readonly index: number;
  readonly at: number;
}

/** The `meta_info` of each prompt's answer. */
function metasOf(bytes: Uint8Array, range: ByteRange): Item[] {
  const found: Item[] = [];
  const add = (object: ByteRange, index: number) => {
    const meta = member(bytes, object.start, "meta_info");
    if (meta !== undefined && bytes[meta.start] === OPEN_OBJECT) found.push({ index, at: meta.start });
  };
  if (bytes[range.start] === OPEN_ARRAY) {
    let index = 0;
    walkArray(bytes, range.start, (item) => add(item, index++));
  } else add(range, numberAt(bytes, member(bytes, range.start, "index")) ?? 0);
  return found;
}

/** The `logprobs` of each choice. */
function choicesOf(bytes: Uint8Array, range: ByteRange): Item[] {
  const found: Item[] = [];
  const choices = member(bytes, range.start, "choices");
  if (choices === undefined || bytes[choices.start] !== OPEN_ARRAY) return found;
  walkArray(bytes, choices.start, (choice) => {
    const logprobs = member(bytes, choice.start, "logprobs");
    if (logprobs === undefined || bytes[logprobs.start] !== OPEN_OBJECT) return;
    found.push({ index: numberAt(bytes, member(bytes, choice.start, "index")) ?? 0, at: logprobs.start });
  });
  return found;
}

/** Each list with the prefill server's entries in front. */
function prepended(
  bytes: Uint8Array,
  at: number,
  listNames: readonly string[],
  lists: Lists,
): Edit[] {
  return listNames.flatMap((text) => {
    const range = member(bytes, at, text);
    const mine = items(bytes, range);
    const theirs = lists.get(text);
    if (range === undefined || mine === undefined || theirs === undefined || theirs.length === 0) return [];
    return [{ ...range, content: list([...theirs, ...mine]) }];
  });
}

/** The first token's entry, where decode has one entry less than tokens. */
function firstChosen(bytes: Uint8Array, at: number, lists: Lists): Edit[] {
  const range = member(bytes, at, CHOSEN_IDS);
  const mine = items(bytes, range);
  const tokens = items(bytes, member(bytes, at, CHOSEN));
  const first = lists.get(CHOSEN_IDS)?.[0];
  if (range === undefined || mine === undefined || first === undefined) return [];
  return mine.length + 1 === tokens?.length ? [{ ...range, content: list([first, ...mine]) }] : [];
}

/** The items of an array; undefined for anything else. */
function items(bytes: Uint8Array, range: ByteRange | undefined): Uint8Array[] | undefined {
  if (range === undefined || bytes[range.start] !== OPEN_ARRAY) return undefined;
  const found: Uint8Array[] = [];
  walkArray(bytes, range.start, ({ start, end }) => void found.push(bytes.subarray(start, end)));
  return found;
}

function list(parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length + 1, 1));
  joined[0] = OPEN_ARRAY;
  let at = 1;
  for (const part of parts) {
    if (at > 1) {
      joined.set(COMMA, at);
      at++;
    }
    joined.set(part, at);
    at += part.length;
  }
  joined[at] = CLOSE_ARRAY;
  return joined.subarray(0, at + 1);
}

/** The value of a member of the object that starts at `at`; undefined when it has none, or is no object. */
function member(bytes: Uint8Array, at: number, name: string): ByteRange | undefined {
  if (bytes[at] !== OPEN_OBJECT) return undefined;
  const wanted = encoder.encode(name);
  let found: ByteRange | undefined;
  walkObject(bytes, at, (key, value) => {
    if (!contentIs(bytes, key, wanted)) return false;
    found = value;
    return true;
  });
  return found;
}

function numberAt(bytes: Uint8Array, range: ByteRange | undefined): number | undefined {
  if (range === undefined) return undefined;
  const value = Number(new TextDecoder().decode(bytes.subarray(range.start, range.end)));
  return Number.isInteger(value) ? value : undefined;
}

function whole(bytes: Uint8Array): ByteRange {
  return { start: 0, end: bytes.length };
}

/** Range of the JSON of each event. */
function eventsOf(bytes: Uint8Array): ByteRange[] {
  const found: ByteRange[] = [];
  for (let at = 0; at < bytes.length;) {
    let end = bytes.indexOf(NEWLINE, at);
    if (end < 0) end = bytes.length;
    if (startsWithData(bytes, at)) found.push({ start: at + DATA.length, end });
    at = end + 1;
  }
  return found;
}

function startsWithData(bytes: Uint8Array, at: number): boolean {
  for (let i = 0; i < DATA.length; i++) if (bytes[at + i] !== DATA.charCodeAt(i)) return false;
  return true;
}
