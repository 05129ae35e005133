import { Buffer } from "node:buffer";
import type { OutgoingRequest } from "../../base/transport.ts";
import type { Target } from "./target.ts";

/** A text up to this long is left to the socket to encode, which does so on the way. */
const SHORT_TEXT = 16 * 1024;

/** Headers that the transport writes itself. */
const OWN = new Set(["host", "connection", "content-length", "transfer-encoding", "keep-alive"]);
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What a header's value must not hold: it would end the header, or is no byte. */
const FORBIDDEN = /[^\t\x20-\x7e\x80-\xff]/;
const BEYOND_ASCII = /[\x80-\xff]/;

type Headers = OutgoingRequest["headers"];

/** The headers that were written last: both halves of a pair have the same. */
let latest: { readonly headers: Headers; readonly lines: string; readonly isAscii: boolean } | undefined;

/**
 * A request as it is written, in pieces, texts to be encoded in UTF-8; throws a `TypeError` for a header that HTTP cannot
 * carry.
 */
export function requestBytes(request: OutgoingRequest, target: Target): (string | Uint8Array)[] {
  const { method, headers, body } = request;
  if (latest?.headers !== headers) {
    const lines = linesOf(headers);
    latest = { headers, lines, isAscii: !BEYOND_ASCII.test(lines) };
  }
  let head = `${method} ${target.path} HTTP/1.1\r\nhost: ${headers.host ?? target.authority}\r\n`;
  if (target.authorization !== undefined && headers.authorization === undefined) {
    head += `authorization: ${target.authorization}\r\n`;
  }
  head += latest.lines;
  const content = typeof body === "string" && body.length > SHORT_TEXT ? Buffer.from(body) : body;
  if (typeof content === "string") head += `content-length: ${Buffer.byteLength(content)}\r\n`;
  else if (content !== undefined) head += `content-length: ${content.length}\r\n`;
  else if (method === "POST" || method === "PUT") head += "content-length: 0\r\n";
  head += "connection: keep-alive\r\n\r\n";
  const first = latest.isAscii ? head : Buffer.from(head, "latin1");
  return content === undefined || content.length === 0 ? [first] : [first, content];
}

/** The lines of all headers but the transport's own. */
function linesOf(headers: Headers): string {
  let lines = "";
  for (const name in headers) {
    if (OWN.has(name)) continue;
    const value = headers[name]!;
    if (!TOKEN.test(name) || FORBIDDEN.test(value)) {
      throw new TypeError(`Cannot send header ${JSON.stringify(name)}: HTTP cannot carry its name or value`);
    }
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}
