import type { Buffer } from "node:buffer";
import { INPUT_BYTES, LLHTTP, MessageParser } from "../../wire/message_parser.ts";

/** Longest head of a request: its first line, headers and trailers. */
export const MAX_REQUEST_HEAD_BYTES = 64 * 1024;

/** A request's head. */
export interface RequestHead {
  readonly method: string;
  /** As it was sent: most often a path with its query. */
  readonly target: string;
  /** Lower-case names; headers that came twice joined with ", ". */
  readonly headers: Readonly<Record<string, string>>;
  readonly isHttp11: boolean;
  /** The connection can carry another request behind this one. */
  readonly keepAlive: boolean;
}

/** One connection's parser of HTTP/1.1 requests, one after the other. */
export class RequestParser extends MessageParser {
  readonly #methods: string[] = [];
  #target = "";
  #head: RequestHead | undefined;
  #chunks: Uint8Array<ArrayBuffer>[] = [];
  #complete = false;

  constructor() {
    super(LLHTTP.request, MAX_REQUEST_HEAD_BYTES);
  }

  /** Why the bytes are no request. */
  get problem(): string {
    return this.reason ?? "it is not HTTP/1.1";
  }

  /** The status of the answer to what is no request. */
  get problemStatus(): number {
    return this.status;
  }

  /** True once a request's end was read, until `begin`. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Expects the next request. */
  begin(): void {
    this.beginHead();
    this.#target = "";
    this.#complete = false;
  }

  /**
   * Takes bytes from `from` on, up to the end of the request at most. Gives the offset behind those that it took, or -1
   * for bytes that are no request.
   */
  parse(data: Buffer, from: number): number {
    let at = from;
    while (at < data.length && !this.#complete) {
      const part = at === 0 && data.length <= INPUT_BYTES ? data : data.subarray(at, at + INPUT_BYTES);
      const result = this.execute(part);
      if (result === LLHTTP.ok) at += part.length;
      else if (this.#complete && result === LLHTTP.paused || result === LLHTTP.pausedForUpgrade) {
        // Nothing is upgraded: llhttp says so behind the request, where the next one begins.
        at += this.resume(result);
      } else {
        this.keepReason();
        return -1;
      }
    }
    return at;
  }

  /** The head, once, when it has been read. */
  takeHead(): RequestHead | undefined {
    const head = this.#head;
    this.#head = undefined;
    return head;
  }

  /** The parts of the body that have been read. */
  takeChunks(): readonly Uint8Array<ArrayBuffer>[] {
    const chunks = this.#chunks;
    if (chunks.length > 0) this.#chunks = [];
    return chunks;
  }

  protected override onTarget(part: string): void {
    this.#target = this.#target === "" ? part : this.#target + part;
  }

  protected override onBody(bytes: Uint8Array<ArrayBuffer>): void {
    this.#chunks.push(bytes);
  }

  protected override onHead(
    _status: number,
    _upgrade: boolean,
    keepAlive: boolean,
    headers: Record<string, string>,
  ): number {
    const { isHttp11 } = this;
    if (!isHttp11 && !this.isHttp10) return this.fail("its version of HTTP is neither 1.1 nor 1.0", 505);
    if (isHttp11 && headers["host"] === undefined) return this.fail("a request of HTTP/1.1 names its host");
    const coding = headers["transfer-encoding"];
    // Others between here and the client may see another end of such a request.
    if (coding === "" || coding !== undefined && !isHttp11) {
      return this.fail("its Transfer-Encoding does not say where it ends");
    }
    if (coding !== undefined && /,\s*chunked$/i.test(coding)) {
      return this.fail('its Transfer-Encoding is not known here: "chunked" alone is', 501);
    }
    const method = this.#methodName();
    if (method === "CONNECT") return this.fail("this is no proxy");
    this.#head = { method, target: this.#target, headers, isHttp11, keepAlive };
    return LLHTTP.ok;
  }

  protected override onComplete(): number {
    this.#complete = true;
    return LLHTTP.paused;
  }

  protected override joinedValues(name: string, earlier: string, value: string): string {
    if (name === "host") this.fail("it names two hosts");
    return super.joinedValues(name, earlier, value);
  }

  #methodName(): string {
    const number = this.method;
    return this.#methods[number] ??= this.textAt(this.module.llhttp_method_name(number));
  }
}
