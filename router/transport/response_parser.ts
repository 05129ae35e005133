import type { Buffer } from "node:buffer";
import { INPUT_BYTES, LLHTTP, MessageParser } from "../wire/message_parser.ts";

/** Longest response head; interim heads and trailers count, too. */
export const MAX_HEAD_BYTES = 128 * 1024;

const SKIP_BODY = 1;

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

/**
 * One connection's parser of HTTP/1.1 responses. Interim responses (1xx) and trailers are left out; one response at a
 * time, and what follows it ends the connection.
 */
export class ResponseParser extends MessageParser {
  #handler: ResponseHandler | undefined;
  #interim = false;
  #keepAlive = false;
  #complete = false;

  constructor() {
    super(LLHTTP.response, MAX_HEAD_BYTES);
  }

  /** The reason of `invalid`. */
  get problem(): string {
    return this.reason ?? "the response is not HTTP/1.1";
  }

  /** Expects a response. */
  begin(handler: ResponseHandler): void {
    this.#handler = handler;
    this.beginHead();
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
    const result = this.executeEnd();
    return result === LLHTTP.ok && this.#complete || result === LLHTTP.paused ? "ended_for_good" : "open";
  }

  #parse(part: Buffer, last: boolean): ParsedState {
    const result = this.execute(part);
    if (result === LLHTTP.ok) return "open";
    if (result !== LLHTTP.paused || !this.#complete) {
      this.keepReason();
      return "invalid";
    }
    const end = this.resume(result);
    // Bytes behind a response belong to no request: nothing on this connection can be trusted any more.
    return this.#keepAlive && last && end === part.length ? "ended" : "ended_for_good";
  }

  protected override onBody(bytes: Uint8Array<ArrayBuffer>): void {
    this.#handler!.onBody(bytes);
  }

  protected override onHead(
    status: number,
    upgrade: boolean,
    keepAlive: boolean,
    headers: Record<string, string>,
  ): number {
    const handler = this.#handler;
    if (handler === undefined || this.#complete) return this.fail("the response answers no request");
    if (upgrade) return this.fail("the response changes the protocol");
    this.#interim = status < 200;
    if (this.#interim) return 0;
    const bodiless = handler.bodiless || status === 204 || status === 304;
    // llhttp does not know of HEAD, and would wait for the end of the connection.
    this.#keepAlive = keepAlive ||
      bodiless && this.isHttp11 && !/\bclose\b/i.test(headers["connection"] ?? "");
    // A body that must not be there would be taken for the next response.
    if (!handler.bodiless && bodiless && announcesBody(headers)) this.#keepAlive = false;
    handler.onHead(status, headers);
    return bodiless ? SKIP_BODY : 0;
  }

  protected override onComplete(): number {
    if (this.#interim) return 0;
    this.#complete = true;
    return LLHTTP.paused;
  }
}

function announcesBody(headers: Readonly<Record<string, string>>): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}
