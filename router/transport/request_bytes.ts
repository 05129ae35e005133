import { Buffer } from "node:buffer";
import type { OutgoingRequest } from "../../base/transport.ts";
import type { Target } from "./target.ts";

/** A body up to this long is copied behind its head, to leave in one write. */
const ONE_WRITE_BYTES = 64 * 1024;

/** Headers that the transport writes itself. */
const OWN = new Set(["host", "connection", "content-length", "transfer-encoding", "keep-alive"]);
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What a header's value must not hold: it would end the header, or is no byte. */
const FORBIDDEN = /[^\t\x20-\x7e\x80-\xff]/;
const BEYOND_ASCII = /[\x80-\xff]/;

type Headers = OutgoingRequest["headers"];

/** The headers that were written last: both halves of a pair have the same. */
let latest: { readonly headers: Headers; readonly lines: string } | undefined;

/** A request as it is written, in pieces; throws a `TypeError` for a header that HTTP cannot carry. */
export function requestBytes(request: OutgoingRequest, target: Target): (string | Uint8Array)[] {
  const { method, headers, body } = request;
  if (latest?.headers !== headers) latest = { headers, lines: linesOf(headers) };
  let head = `${method} ${target.path} HTTP/1.1\r\nhost: ${headers.host ?? target.authority}\r\n`;
  if (target.authorization !== undefined && headers.authorization === undefined) {
    head += `authorization: ${target.authorization}\r\n`;
  }
  head += latest.lines;
  // A long text is written in pieces, as bytes.
  const content = typeof body === "string" && body.length > ONE_WRITE_BYTES ? Buffer.from(body) : body;
  if (content !== undefined) head += `content-length: ${Buffer.byteLength(content)}\r\n`;
  else if (method === "POST" || method === "PUT") head += "content-length: 0\r\n";
  head += "connection: keep-alive\r\n\r\n";
  if (typeof content === "string" && !BEYOND_ASCII.test(head)) return [head + content];
  const bodyBytes = typeof content === "string" ? Buffer.from(content) : content;
  if (bodyBytes === undefined || bodyBytes.length > ONE_WRITE_BYTES) {
    const headBytes = Buffer.from(head, "latin1");
    return bodyBytes === undefined ? [headBytes] : [headBytes, bodyBytes];
  }
  const all = Buffer.allocUnsafe(head.length + bodyBytes.length);
  all.write(head, 0, "latin1");
  all.set(bodyBytes, head.length);
  return [all];
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
