import { copied } from "../../base/bytes.ts";
import { ByteBlocks } from "./byte_blocks.ts";
import { MAX_EVENT_LENGTH, SseParser, type SseParserOptions } from "./sse.ts";

/** Bytes from which an event's data stays bytes. */
export const LONG_DATA_BYTES = 256 * 1024;
/** Bytes that are looked at in one step: a longer line is seen as one that goes on. */
const STEP_BYTES = 64 * 1024;

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const FIELD = new TextEncoder().encode("data:");
/** Begins what stands in an event for long data: half a surrogate pair, which no bytes decode to. */
const MARK = "\ud800";

const ENCODER = new TextEncoder();

/** Options of a `LongEventParser`. */
export interface LongEventOptions extends SseParserOptions {
  /** Bytes of a line from which it stays bytes. */
  readonly longBytes?: number | undefined;
  readonly stepBytes?: number | undefined;
}

/** Data of a long event: its bytes, in their order. */
export type LongData = readonly Uint8Array<ArrayBuffer>[];

/** What comes behind the bytes seen so far: a line, more of one that may be long data, more of any other line. */
type Place = "start" | "data" | "other";

/**
 * Cuts the bytes of an event stream into events as `SseParser` does, but leaves long data as the bytes that they are: as
 * text, megabytes of an event would be joined, and encoded anew to be parsed in turns, each at once, and the collector
 * would carry all pieces along until its end.
 */
export class LongEventParser {
  readonly #parser: SseParser;
  readonly #maxLength: number;
  readonly #tooLong: SseParserOptions["tooLong"];
  readonly #longBytes: number;
  readonly #stepBytes: number;
  #place: Place = "start";
  /** The line that goes on, as long as it may be long data. */
  #line = new ByteBlocks();
  /** Long lines of the event that is not over, and how many bytes they have. */
  #long: LongData[] = [];
  #kept = 0;
  #failure: Error | undefined;

  /** Of `maxEventLength` each byte of long data is one unit. */
  constructor(options: LongEventOptions = {}) {
    this.#longBytes = options.longBytes ?? LONG_DATA_BYTES;
    this.#stepBytes = options.stepBytes ?? STEP_BYTES;
    this.#parser = new SseParser(options);
    this.#maxLength = options.maxEventLength ?? MAX_EVENT_LENGTH;
    this.#tooLong = options.tooLong;
  }

  /** The data of the events that these bytes complete. Throws when an event exceeds the limit. */
  push(bytes: Uint8Array): (string | LongData)[] {
    if (this.#failure !== undefined) throw this.#failure;
    // The ordinary case: nothing is cut, and nothing long.
    if (this.#place === "start" && bytes.length <= this.#stepBytes && isLineEnd(bytes[bytes.length - 1])) {
      return this.#feed(bytes);
    }
    const events: (string | LongData)[] = [];
    for (let from = 0; from < bytes.length; from += this.#stepBytes) {
      for (const event of this.#step(bytes.subarray(from, from + this.#stepBytes))) events.push(event);
    }
    return events;
  }

  #step(bytes: Uint8Array): (string | LongData)[] {
    if (this.#place === "start") return this.#lines(bytes);
    const end = firstLineEnd(bytes);
    const events = this.#goOn(end < 0 ? bytes : bytes.subarray(0, end));
    if (end < 0) return events;
    if (this.#place === "data") events.push(...this.#endLine());
    this.#place = "start";
    // The line's end goes to the parser: it may be of two bytes, of which the second one is still to come.
    return [...events, ...this.#lines(bytes.subarray(end))];
  }

  /** Whole lines, and the beginning of one that goes on. */
  #lines(bytes: Uint8Array): (string | LongData)[] {
    const end = 1 + Math.max(bytes.lastIndexOf(NEWLINE), bytes.lastIndexOf(RETURN));
    const events = end === 0 ? [] : this.#feed(bytes.subarray(0, end));
    if (end === bytes.length) return events;
    this.#place = "data";
    return [...events, ...this.#goOn(bytes.subarray(end))];
  }

  /** More of a line. */
  #goOn(bytes: Uint8Array): (string | LongData)[] {
    if (this.#place === "other") return this.#feed(bytes);
    const wasShort = this.#line.length < FIELD.length;
    this.#line.append(bytes);
    if (wasShort && !beginsLikeData(this.#line.blocks[0]!)) {
      this.#place = "other";
      return this.#feedLine();
    }
    if (this.#line.length + this.#kept <= this.#maxLength) return [];
    const what = `an event of its stream is longer than ${this.#maxLength} bytes`;
    this.#line = new ByteBlocks();
    throw this.#failure = this.#tooLong?.(what) ?? new Error(what);
  }

  /** The end of a line that was kept. */
  #endLine(): (string | LongData)[] {
    if (this.#line.length <= this.#longBytes) return this.#feedLine();
    const [first, ...more] = this.#line.blocks;
    const start = FIELD.length + (first![FIELD.length] === SPACE ? 1 : 0);
    this.#kept += this.#line.length;
    this.#line = new ByteBlocks();
    this.#long.push([first!.subarray(start), ...more]);
    return this.#parser.pushText(`data: ${MARK}${this.#long.length - 1};`);
  }

  #feedLine(): (string | LongData)[] {
    const { blocks } = this.#line;
    this.#line = new ByteBlocks();
    return blocks.flatMap((block) => this.#feed(block));
  }

  #feed(bytes: Uint8Array): (string | LongData)[] {
    const events = this.#parser.push(bytes);
    if (this.#long.length === 0 && !hasLong(events, this.#longBytes)) return events;
    if (events.length === 0) return events;
    const long = this.#long;
    this.#long = [];
    this.#kept = 0;
    return events.map((data) => {
      if (data === `${MARK}0;`) return long[0]!;
      const whole = withLong(data, long);
      return whole.length > this.#longBytes ? [ENCODER.encode(whole)] : whole;
    });
  }
}

/** True for an event that is long though none of its lines is. A loop, because there is one event for every token. */
function hasLong(events: readonly string[], length: number): boolean {
  for (let at = 0; at < events.length; at++) if (events[at]!.length > length) return true;
  return false;
}

/** The data of an event of several lines, with the long ones in their places. */
function withLong(data: string, long: readonly LongData[]): string {
  const textOf = (at: number) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(copied(long[at]!));
  return data.replaceAll(new RegExp(`${MARK}(\\d+);`, "g"), (_, at) => textOf(Number(at)));
}

function isLineEnd(byte: number | undefined): boolean {
  return byte === NEWLINE || byte === RETURN;
}

function firstLineEnd(bytes: Uint8Array): number {
  const newline = bytes.indexOf(NEWLINE);
  const other = (newline < 0 ? bytes : bytes.subarray(0, newline)).indexOf(RETURN);
  return other < 0 ? newline : other;
}

function beginsLikeData(bytes: Uint8Array): boolean {
  return FIELD.every((byte, at) => at >= bytes.length || bytes[at] === byte);
}
