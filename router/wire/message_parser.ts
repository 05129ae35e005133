import type { Buffer } from "node:buffer";
import { KnownTexts } from "./known_texts.ts";
import { binary } from "./llhttp_binary.cjs";

/** llhttp's numbers. */
export const LLHTTP = { request: 1, response: 2, ok: 0, paused: 21, pausedForUpgrade: 22, fail: -1 } as const;

/** Bytes that are parsed at a time. */
export const INPUT_BYTES = 64 * 1024;

/** Names of headers in lower case, and the texts of values. */
const NAMES = new KnownTexts((name) => name.toLowerCase());
const VALUES = new KnownTexts();

/** Functions of the WebAssembly module; pointers are numbers. */
interface Llhttp {
  readonly memory: WebAssembly.Memory;
  malloc(bytes: number): number;
  llhttp_alloc(type: number): number;
  llhttp_free(parser: number): void;
  llhttp_execute(parser: number, data: number, bytes: number): number;
  llhttp_finish(parser: number): number;
  llhttp_resume(parser: number): void;
  llhttp_resume_after_upgrade(parser: number): void;
  llhttp_get_http_major(parser: number): number;
  llhttp_get_http_minor(parser: number): number;
  llhttp_get_method(parser: number): number;
  llhttp_method_name(method: number): number;
  llhttp_get_error_pos(parser: number): number;
  llhttp_get_error_reason(parser: number): number;
}

/**
 * What the parsers of HTTP/1.1 requests and responses share: llhttp, which undici and Node.js use, with its strict rules.
 * Bytes are copied into the module's memory; heads are collected, and the pieces of a body in one read leave as one.
 */
export abstract class MessageParser {
  static #llhttp: Llhttp | undefined;
  /** Place in the module's memory that input is copied to. */
  static #inputAt = 0;
  static #input: Uint8Array = new Uint8Array();
  /** The parser that is at work, and what it works on. */
  static #current: MessageParser | undefined;
  static #data: Buffer | undefined;
  /** Offset and length of each piece of the body in it. */
  static readonly #pieces: number[] = [];

  readonly #maxHeadBytes: number;
  #parser: number;
  #name = "";
  #value = "";
  #inValue = false;
  #headBytes = 0;
  #problem: string | undefined;
  #status = 400;
  protected readonly module: Llhttp;
  /** Those that were read since the last `takeHeaders`; trailers, too. */
  #headers: Record<string, string> = {};

  /** `maxHeadBytes`: bound of a head, with what belongs to it. */
  constructor(type: typeof LLHTTP.request | typeof LLHTTP.response, maxHeadBytes: number) {
    this.module = MessageParser.#llhttp ??= MessageParser.#load();
    this.#parser = this.module.llhttp_alloc(type);
    this.#maxHeadBytes = maxHeadBytes;
  }

  /** Why the bytes are no message; undefined where it is not known. */
  protected get reason(): string | undefined {
    return this.#problem;
  }

  /** The status of an answer to it. */
  protected get status(): number {
    return this.#status;
  }

  /** True for a head of HTTP/1.1, not 1.0. */
  protected get isHttp11(): boolean {
    return this.module.llhttp_get_http_minor(this.#parser) === 1;
  }

  /** True for a head of HTTP/1.0. */
  protected get isHttp10(): boolean {
    const { llhttp_get_http_major, llhttp_get_http_minor } = this.module;
    return llhttp_get_http_major(this.#parser) === 1 && llhttp_get_http_minor(this.#parser) === 0;
  }

  /** Gives its memory back; the parser is not to be used again. */
  free(): void {
    if (this.#parser === 0) return;
    this.module.llhttp_free(this.#parser);
    this.#parser = 0;
  }

  /** Called at the end of a head, all of which is in `headers`; the result is llhttp's. */
  protected abstract onHead(
    status: number,
    upgrade: boolean,
    keepAlive: boolean,
    headers: Record<string, string>,
  ): number;

  /** Called at the end of a message; the result is llhttp's. */
  protected abstract onComplete(): number;

  /** Takes a part of a body, which is its own. */
  protected abstract onBody(bytes: Uint8Array<ArrayBuffer>): void;

  /** Called with parts of a request's target. */
  protected onTarget(_part: string): void {}

  /** A head may be as long as it may be again. */
  protected beginHead(): void {
    this.#headBytes = 0;
  }

  /** Parses at most `INPUT_BYTES`; gives llhttp's result. */
  protected execute(part: Buffer): number {
    const { module } = this;
    let input = MessageParser.#input;
    if (input.buffer !== module.memory.buffer) {
      input = new Uint8Array(module.memory.buffer, MessageParser.#inputAt, INPUT_BYTES);
      MessageParser.#input = input;
    }
    input.set(part);
    MessageParser.#current = this;
    MessageParser.#data = part;
    const result = module.llhttp_execute(this.#parser, MessageParser.#inputAt, part.length);
    MessageParser.#current = MessageParser.#data = undefined;
    if (MessageParser.#pieces.length > 0) this.#handBody();
    return result;
  }

  /** Tells llhttp that nothing more comes; gives its result. */
  protected executeEnd(): number {
    MessageParser.#current = this;
    const result = this.module.llhttp_finish(this.#parser);
    MessageParser.#current = undefined;
    return result;
  }

  /** Goes on behind a message's end; gives the number of bytes of the last part that belong to it. */
  protected resume(result: number): number {
    const end = this.module.llhttp_get_error_pos(this.#parser) - MessageParser.#inputAt;
    if (result === LLHTTP.pausedForUpgrade) this.module.llhttp_resume_after_upgrade(this.#parser);
    else this.module.llhttp_resume(this.#parser);
    return end;
  }

  /** Makes the message invalid, with a reason and the status of an answer to it; the result is llhttp's. */
  protected fail(problem: string, status = 400): number {
    this.#problem = problem;
    this.#status = status;
    return LLHTTP.fail;
  }

  /** Remembers llhttp's own reason, where there is no other one. */
  protected keepReason(): void {
    const at = this.module.llhttp_get_error_reason(this.#parser);
    if (at !== 0) this.#problem ??= this.textAt(at);
  }

  protected get method(): number {
    return this.module.llhttp_get_method(this.#parser);
  }

  /** A text of the module's own. */
  protected textAt(at: number): string {
    const bytes = new Uint8Array(this.module.memory.buffer, at);
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  /**
   * The body's pieces in one read leave as one chunk: between them lay only sizes of chunks. They are copied out of the
   * module's memory, as a view into a read costs more than a copy of an event, and keeps the whole read alive.
   */
  #handBody(): void {
    const input = MessageParser.#input;
    const pieces = MessageParser.#pieces;
    const start = pieces[0]!;
    let end = start + pieces[1]!;
    for (let i = 2; i < pieces.length; i += 2) {
      const from = pieces[i]!;
      const bytes = pieces[i + 1]!;
      input.copyWithin(end, from, from + bytes);
      end += bytes;
    }
    pieces.length = 0;
    this.onBody(input.slice(start, end) as Uint8Array<ArrayBuffer>);
  }

  #onTarget(from: number, length: number): number {
    this.onTarget(this.#textIn(VALUES, from, length));
    return this.#count(length);
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
    const headers = this.#headers;
    const earlier = headers[name];
    // A header may be called as what every object has.
    const isFirst = earlier === undefined || !Object.hasOwn(headers, name);
    headers[name] = isFirst ? value : this.joinedValues(name, earlier, value);
    this.#name = this.#value = "";
    this.#inValue = false;
  }

  /** The value of a header that comes twice. */
  protected joinedValues(_name: string, earlier: string, value: string): string {
    return `${earlier}, ${value}`;
  }

  #takeHeaders(): Record<string, string> {
    if (this.#inValue) this.#keepHeader();
    const headers = this.#headers;
    this.#headers = {};
    return headers;
  }

  #onMessageEnd(): number {
    this.#takeHeaders();
    // Trailers may have been what no head may be: the next message is not to be refused for it.
    return this.#problem === undefined ? this.onComplete() : LLHTTP.fail;
  }

  #onPiece(from: number, length: number): number {
    MessageParser.#pieces.push(from - MessageParser.#inputAt, length);
    return 0;
  }

  #textIn(texts: KnownTexts, from: number, length: number): string {
    const start = from - MessageParser.#inputAt;
    return texts.read(MessageParser.#data!, start, start + length);
  }

  /** Counts bytes of heads and trailers. */
  #count(bytes: number): number {
    this.#headBytes += bytes;
    return this.#headBytes > this.#maxHeadBytes
      ? this.fail(`its head exceeds ${this.#maxHeadBytes} bytes`, 431)
      : 0;
  }

  static #load(): Llhttp {
    const current = () => MessageParser.#current!;
    const env = {
      wasm_on_url: (_: number, from: number, length: number) => current().#onTarget(from, length),
      wasm_on_message_begin: () => 0,
      wasm_on_status: (_: number, _from: number, length: number) => current().#count(length),
      wasm_on_header_field: (_: number, from: number, length: number) =>
        current().#onHeaderName(from, length),
      wasm_on_header_value: (_: number, from: number, length: number) =>
        current().#onHeaderValue(from, length),
      wasm_on_headers_complete: (_: number, status: number, upgrade: number, keepAlive: number) => {
        const parser = current();
        const headers = parser.#takeHeaders();
        return parser.#problem === undefined
          ? parser.onHead(status, upgrade === 1, keepAlive === 1, headers)
          : LLHTTP.fail;
      },
      wasm_on_body: (_: number, from: number, length: number) => current().#onPiece(from, length),
      wasm_on_message_complete: () => current().#onMessageEnd(),
    };
    const module = new WebAssembly.Instance(new WebAssembly.Module(binary), { env });
    const llhttp = module.exports as typeof module.exports & Llhttp;
    MessageParser.#inputAt = llhttp.malloc(INPUT_BYTES);
    return llhttp;
  }
}
