import type { Buffer } from "node:buffer";
import { KnownTexts } from "./known_texts.ts";
import llhttpBinary from "undici/lib/llhttp/llhttp_simd-wasm.js";

/** Longest response head; interim heads and trailers count, too. */
export const MAX_HEAD_BYTES = 128 * 1024;

/** Bytes that are parsed at a time. */
const INPUT_BYTES = 64 * 1024;

/** llhttp's numbers. */
const LLHTTP = { response: 2, ok: 0, paused: 21 } as const;
const FAIL = -1;
const SKIP_BODY = 1;

/** Names of headers in lower case, and the texts of values. */
const NAMES = new KnownTexts((name) => name.toLowerCase());
const VALUES = new KnownTexts();

/** Receiver of one response's parts, called while bytes are parsed. */
export interface ResponseHandler {
  /** True for an answer to HEAD: its head speaks of a body that does not come. */
  readonly bodiless: boolean;
  onHead(status: number, headers: Readonly<Record<string, string>>): void;
  onBody(chunk: Uint8Array): void;
}

/** State of a parser after some bytes. */
export type ParsedState =
  /** More bytes are needed. */
  | "open"
  /** The response has ended; the connection can carry another request. */
  | "ended"
  /** The response has ended, and its connection with it. */
  | "ended_for_good"
  /** Not HTTP/1.1, or a head that is too long: `problem` says what. */
  | "invalid";

/** Functions of the WebAssembly module; pointers are numbers. */
interface Llhttp {
  readonly memory: WebAssembly.Memory;
  malloc(bytes: number): number;
  llhttp_alloc(type: number): number;
  llhttp_free(parser: number): void;
  llhttp_execute(parser: number, data: number, bytes: number): number;
  llhttp_finish(parser: number): number;
  llhttp_resume(parser: number): void;
  llhttp_get_http_minor(parser: number): number;
  llhttp_get_error_pos(parser: number): number;
  llhttp_get_error_reason(parser: number): number;
}

/**
 * One connection's parser of HTTP/1.1 responses: llhttp, which undici and Node.js use, with its strict rules.
 * Interim responses (1xx) and trailers are left out; one response at a time, and what follows it ends the connection.
 */
export class ResponseParser {
  static #llhttp: Llhttp | undefined;
  /** Place in the module's memory that input is copied to. */
  static #inputAt = 0;
  static #input: Uint8Array = new Uint8Array();
  /** The parser that is at work, and what it works on. */
  static #current: ResponseParser | undefined;
  static #data: Buffer | undefined;
  /** Offset and length of each piece of the body in it. */
  static readonly #pieces: number[] = [];

  readonly #module: Llhttp;
  #parser: number;
  #handler: ResponseHandler | undefined;
  #headers: Record<string, string> = {};
  #name = "";
  #value = "";
  #inValue = false;
  #headBytes = 0;
  #interim = false;
  #keepAlive = false;
  #complete = false;
  #problem: string | undefined;

  constructor() {
    this.#module = ResponseParser.#llhttp ??= ResponseParser.#load();
    this.#parser = this.#module.llhttp_alloc(LLHTTP.response);
  }

  /** The reason of `invalid`. */
  get problem(): string {
    return this.#problem ?? "the response is not HTTP/1.1";
  }

  /** Expects a response. */
  begin(handler: ResponseHandler): void {
    this.#handler = handler;
    this.#headBytes = 0;
    this.#complete = false;
  }

  /** Takes what has arrived. */
  parse(data: Buffer): ParsedState {
    let read = 0;
    while (read < data.length) {
      const part = data.length - read > INPUT_BYTES || read > 0
        ? data.subarray(read, read + INPUT_BYTES)
        : data;
      read += part.length;
      const state = this.#parse(part, read === data.length);
      if (state !== "open") return state;
    }
    return "open";
  }

  /** The other side will send nothing more: "open" when it left in the middle. */
  finish(): ParsedState {
    ResponseParser.#current = this;
    const result = this.#module.llhttp_finish(this.#parser);
    ResponseParser.#current = undefined;
    return result === LLHTTP.ok && this.#complete || result === LLHTTP.paused ? "ended_for_good" : "open";
  }

  /** Gives its memory back; the parser is not to be used again. */
  free(): void {
    if (this.#parser === 0) return;
    this.#module.llhttp_free(this.#parser);
    this.#parser = 0;
  }

  #parse(part: Buffer, last: boolean): ParsedState {
    const module = this.#module;
    let input = ResponseParser.#input;
    if (input.buffer !== module.memory.buffer) {
      input = ResponseParser.#input = new Uint8Array(
        module.memory.buffer,
        ResponseParser.#inputAt,
        INPUT_BYTES,
      );
    }
    input.set(part);
    ResponseParser.#current = this;
    ResponseParser.#data = part;
    const result = module.llhttp_execute(this.#parser, ResponseParser.#inputAt, part.length);
    ResponseParser.#current = ResponseParser.#data = undefined;
    if (ResponseParser.#pieces.length > 0) this.#handBody();
    if (result === LLHTTP.ok) return "open";
    if (result !== LLHTTP.paused || !this.#complete) {
      this.#problem ??= this.#reason();
      return "invalid";
    }
    const end = module.llhttp_get_error_pos(this.#parser) - ResponseParser.#inputAt;
    module.llhttp_resume(this.#parser);
    // Bytes behind a response belong to no request: nothing on this connection can be trusted any more.
    return this.#keepAlive && last && end === part.length ? "ended" : "ended_for_good";
  }

  /**
   * The body's pieces in one read leave as one chunk: between them lay only sizes of chunks. They are copied out of the
   * module's memory, as a view into a read costs more than a copy of an event, and keeps the whole read alive.
   */
  #handBody(): void {
    const input = ResponseParser.#input;
    const pieces = ResponseParser.#pieces;
    const start = pieces[0]!;
    let end = start + pieces[1]!;
    for (let i = 2; i < pieces.length; i += 2) {
      const from = pieces[i]!;
      const bytes = pieces[i + 1]!;
      input.copyWithin(end, from, from + bytes);
      end += bytes;
    }
    pieces.length = 0;
    this.#handler!.onBody(input.slice(start, end));
  }

  #reason(): string | undefined {
    const at = this.#module.llhttp_get_error_reason(this.#parser);
    if (at === 0) return undefined;
    const bytes = new Uint8Array(this.#module.memory.buffer, at);
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  #onHeaderName(from: number, length: number): number {
    if (this.#inValue) this.#keepHeader();
    const part = this.#textIn(NAMES, from, length);
    this.#name = this.#name === "" ? part : this.#name + part;
    return this.#count(length);
  }

  #onHeaderValue(from: number, length: number): number {
    this.#inValue = true;
    const part = this.#textIn(VALUES, from, length);
    this.#value = this.#value === "" ? part : this.#value + part;
    return this.#count(length);
  }

  #keepHeader(): void {
    const name = this.#name;
    const last = this.#value.charCodeAt(this.#value.length - 1);
    const value = last === 0x20 || last === 0x09 ? this.#value.trimEnd() : this.#value;
    const earlier = this.#headers[name];
    this.#headers[name] = earlier === undefined ? value : `${earlier}, ${value}`;
    this.#name = this.#value = "";
    this.#inValue = false;
  }

  #onHead(status: number, upgrade: boolean, keepAlive: boolean): number {
    if (this.#inValue) this.#keepHeader();
    const headers = this.#headers;
    const handler = this.#handler;
    this.#headers = {};
    if (handler === undefined || this.#complete) return this.#fail("the response answers no request");
    if (upgrade) return this.#fail("the response changes the protocol");
    this.#interim = status < 200;
    if (this.#interim) return 0;
    const bodiless = handler.bodiless || status === 204 || status === 304;
    // llhttp does not know of HEAD, and would wait for the end of the connection.
    this.#keepAlive = keepAlive || bodiless && this.#module.llhttp_get_http_minor(this.#parser) === 1 &&
        !/\bclose\b/i.test(headers.connection ?? "");
    // A body that must not be there would be taken for the next response.
    if (!handler.bodiless && bodiless && announcesBody(headers)) this.#keepAlive = false;
    handler.onHead(status, headers);
    return bodiless ? SKIP_BODY : 0;
  }

  #onBody(from: number, length: number): number {
    ResponseParser.#pieces.push(from - ResponseParser.#inputAt, length);
    return 0;
  }

  #onComplete(): number {
    if (this.#inValue) this.#keepHeader();
    this.#headers = {};
    if (this.#interim) return 0;
    this.#complete = true;
    return LLHTTP.paused;
  }

  #textIn(texts: KnownTexts, from: number, length: number): string {
    const start = from - ResponseParser.#inputAt;
    return texts.read(ResponseParser.#data!, start, start + length);
  }

  /** Counts bytes of heads and trailers. */
  #count(bytes: number): number {
    this.#headBytes += bytes;
    return this.#headBytes > MAX_HEAD_BYTES ? this.#fail(`its head exceeds ${MAX_HEAD_BYTES} bytes`) : 0;
  }

  #fail(problem: string): number {
    this.#problem = problem;
    return FAIL;
  }

  static #load(): Llhttp {
    const current = () => ResponseParser.#current!;
    const env = {
      wasm_on_url: () => 0,
      wasm_on_message_begin: () => 0,
      wasm_on_status: (_: number, _from: number, length: number) => current().#count(length),
      wasm_on_header_field: (_: number, from: number, length: number) =>
        current().#onHeaderName(from, length),
      wasm_on_header_value: (_: number, from: number, length: number) =>
        current().#onHeaderValue(from, length),
      wasm_on_headers_complete: (_: number, status: number, upgrade: number, keepAlive: number) =>
        current().#onHead(status, upgrade === 1, keepAlive === 1),
      wasm_on_body: (_: number, from: number, length: number) => current().#onBody(from, length),
      wasm_on_message_complete: () => current().#onComplete(),
    };
    const module = new WebAssembly.Instance(new WebAssembly.Module(llhttpBinary), { env });
    const llhttp = module.exports as typeof module.exports & Llhttp;
    ResponseParser.#inputAt = llhttp.malloc(INPUT_BYTES);
    return llhttp;
  }
}

function announcesBody(headers: Readonly<Record<string, string>>): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}
