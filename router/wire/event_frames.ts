import { copied } from "../../base/bytes.ts";

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const EMPTY = new Uint8Array(0);
const ERROR_EVENT = new TextEncoder().encode('data: {"error"');
const EMPTY_TEXT_EVENT = new TextEncoder().encode('data: {"text":"",');
/** An event longer than this is passed on in pieces instead of being held back. */
const MAX_HELD_BYTES = 1024 * 1024;
/** Longest spelling of the last event that is looked at. */
const DONE_BYTES = 64;

/**
 * Passes server-sent events on in whole events, so that a stream that breaks can still end with a proper one,
 * and remembers the last one. A chunk that ends with an event, the ordinary case, is passed on uncopied.
 */
export class EventFrames {
  #held: Uint8Array = EMPTY;
  #last: Uint8Array = EMPTY;
  #torn = false;
  #sawError = false;

  /** True once an event that starts with `{"error"` was seen at the start of a chunk. */
  get sawError(): boolean {
    return this.#sawError;
  }

  /** True when an over-long event has been passed on in part: what follows must first end it. */
  get torn(): boolean {
    return this.#torn;
  }

  /** True when the last whole event, or what is left behind it, is exactly `[DONE]`. */
  get done(): boolean {
    return isDone(this.#held.length > 0 ? this.#held : this.#last);
  }

  /** The whole events of the last chunk that ended any. */
  get last(): Uint8Array {
    return this.#last;
  }

  /** Takes a chunk in and returns the events that are complete now; may be empty. */
  push(chunk: Uint8Array): Uint8Array {
    const bytes = this.#held.length === 0 ? chunk : copied([this.#held, chunk]);
    const end = endsEvent(bytes, bytes.length) ? bytes.length : lastEventEnd(bytes);
    if (end === 0 && bytes.length > MAX_HELD_BYTES) {
      this.#torn = true;
      this.#held = EMPTY;
      return bytes;
    }
    // Copied: a view would keep the whole chunk alive.
    this.#held = end === bytes.length ? EMPTY : bytes.slice(end);
    if (end === 0) return EMPTY;
    const events = end === bytes.length ? bytes : bytes.subarray(0, end);
    this.#last = events;
    this.#torn = false;
    if (events[8] === ERROR_EVENT[8] && isErrorEvent(events)) this.#sawError = true;
    return events;
  }

  /** The bytes behind the last whole event. */
  rest(): Uint8Array {
    const held = this.#held;
    this.#held = EMPTY;
    return held;
  }
}

/** True when the first event is `{"error": …}`. */
export function isErrorEvent(events: Uint8Array): boolean {
  return startsWith(events, ERROR_EVENT);
}

/** True when the first event is one of `/generate` without text, as SGLang writes it. */
export function isEmptyTextEvent(events: Uint8Array): boolean {
  return startsWith(events, EMPTY_TEXT_EVENT);
}

function startsWith(bytes: Uint8Array, prefix: Uint8Array): boolean {
  for (let i = 0; i < prefix.length; i++) if (bytes[i] !== prefix[i]) return false;
  return true;
}

/** JSON cannot hold a bare line end, so `[DONE]` inside a text can never look like an event of its own. */
function isDone(bytes: Uint8Array): boolean {
  const from = Math.max(0, bytes.length - DONE_BYTES);
  const text = String.fromCharCode(...bytes.subarray(from));
  const match = /(^|\n\r?\n)data: ?\[DONE\][\r\n]*$/.exec(text);
  return match !== null && (match.index > 0 || match[1] !== "" || from === 0);
}

function endsEvent(bytes: Uint8Array, end: number): boolean {
  if (end < 2 || bytes[end - 1] !== NEWLINE) return false;
  const before = bytes[end - 2];
  return before === NEWLINE || (before === RETURN && bytes[end - 3] === NEWLINE);
}

function lastEventEnd(bytes: Uint8Array): number {
  let at = bytes.lastIndexOf(NEWLINE);
  while (at > 0) {
    if (endsEvent(bytes, at + 1)) return at + 1;
    at = bytes.lastIndexOf(NEWLINE, at - 1);
  }
  return 0;
}
