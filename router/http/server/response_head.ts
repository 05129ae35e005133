import { Buffer } from "node:buffer";
import type { Clock } from "../../../base/clock.ts";

/** What a header's name must be, and what its value must not hold. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const FORBIDDEN = /[^\t\x20-\x7e\x80-\xff]/;
const BEYOND_ASCII = /[\x80-\xff]/;
/** Headers of which the server has its own. */
const OWN = new Set(["content-length", "transfer-encoding", "connection", "keep-alive", "date"]);

/** Words behind a status, for people; HTTP needs none. */
const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "No Content",
  304: "Not Modified",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
};

/** How the end of a body is told. */
export type Framing =
  /** Its length in bytes. */
  | number
  /** In chunks. */
  | "chunked"
  /** By the end of the connection. */
  | "until_close"
  /** There is none, and none is spoken of. */
  | "none";

/** What is written before a body. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>> | Headers;
  readonly framing: Framing;
  /** The connection's header; absent: what is usual. */
  readonly connection: "close" | "keep-alive" | undefined;
}

/** Writes heads of responses. */
export class ResponseHeads {
  readonly #clock: Clock;
  #second = -1;
  #date = "";

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A head as it is written; headers that HTTP cannot carry are left out. */
  write({ status, headers, framing, connection }: ResponseHead): string | Uint8Array {
    let head = `HTTP/1.1 ${status} ${REASONS[status] ?? ""}\r\ndate: ${this.#now()}\r\n`;
    head += headers instanceof Headers ? linesOf(headers) : linesOfRecord(headers);
    if (typeof framing === "number") head += `content-length: ${framing}\r\n`;
    else if (framing === "chunked") head += "transfer-encoding: chunked\r\n";
    if (connection !== undefined) head += `connection: ${connection}\r\n`;
    head += "\r\n";
    return BEYOND_ASCII.test(head) ? Buffer.from(head, "latin1") : head;
  }

  #now(): string {
    const second = Math.floor((this.#clock.unixEpochMs + this.#clock.now()) / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#date = new Date(second * 1000).toUTCString();
    }
    return this.#date;
  }
}

function linesOf(headers: Headers): string {
  let lines = "";
  for (const [name, value] of headers) lines += lineOf(name, value);
  return lines;
}

function linesOfRecord(headers: Readonly<Record<string, string>>): string {
  let lines = "";
  for (const name in headers) lines += lineOf(name, headers[name]!);
  return lines;
}

function lineOf(name: string, value: string): string {
  return OWN.has(name) || FORBIDDEN.test(value) || !TOKEN.test(name) ? "" : `${name}: ${value}\r\n`;
}
