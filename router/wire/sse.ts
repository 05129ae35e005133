import { createParser, type EventSourceParser } from "eventsource-parser";

/** Longest event accepted unless told otherwise, in UTF-16 units: cumulative streams with log-probabilities are large. */
export const MAX_EVENT_LENGTH = 32 * 1024 * 1024;

/** The data of the event that ends an OpenAI-style stream; it counts only as a whole event. */
export const DONE = "[DONE]";

const ENCODER = new TextEncoder();

/** One event of an event stream: JSON of the value. */
export function sseEvent(value: object): Uint8Array<ArrayBuffer> {
  return ENCODER.encode(`data: ${JSON.stringify(value)}\n\n`);
}

/** One event with a name. */
export function namedEvent(name: string, value: object): Uint8Array<ArrayBuffer> {
  return ENCODER.encode(`event: ${name}\ndata: ${JSON.stringify(value)}\n\n`);
}

/** The event that ends an OpenAI-style stream. */
export const DONE_EVENT: Uint8Array<ArrayBuffer> = ENCODER.encode(`data: ${DONE}\n\n`);

/** Options of a parser of an event stream. */
export interface SseParserOptions {
  readonly maxEventLength?: number | undefined;
  /** Makes the error for an event that exceeds the limit, from what happened. */
  readonly tooLong?: ((what: string) => Error) | undefined;
}

/** Cuts the bytes of an event stream into events, wherever the pieces of the stream begin and end. */
export class SseParser {
  readonly #decoder = new TextDecoder();
  readonly #parser: EventSourceParser;
  #events: string[] = [];
  #failure: Error | undefined;

  constructor(options: SseParserOptions = {}) {
    const maxBufferSize = options.maxEventLength ?? MAX_EVENT_LENGTH;
    this.#parser = createParser({
      maxBufferSize,
      onEvent: (event) => void this.#events.push(event.data),
      onError: (error) => {
        // Unknown fields are to be ignored (the standard says so); only an endless event is an error.
        if (error.type === "max-buffer-size-exceeded") {
          const what = `an event of its stream is longer than ${maxBufferSize} characters`;
          this.#failure = options.tooLong?.(what) ?? new Error(what);
        }
      },
    });
  }

  /** The data of the events that these bytes complete. Throws when an event exceeds the limit. */
  push(bytes: Uint8Array): string[] {
    return this.pushText(this.#decoder.decode(bytes, { stream: true }));
  }

  /** `push` of a text, which may hold what no bytes decode to; not between the bytes of one character. */
  pushText(text: string): string[] {
    if (this.#failure === undefined) this.#parser.feed(text);
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#events.length === 0) return [];
    const events = this.#events;
    this.#events = [];
    return events;
  }
}
