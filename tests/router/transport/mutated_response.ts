import { Buffer } from "node:buffer";
import type { Random } from "../../../base/random.ts";
import { mutated } from "../../mutations.ts";
import { type ParsedState, ResponseParser } from "../../../router/transport/response_parser.ts";

const SEEDS = [
  "HTTP/1.1 200 OK\r\ncontent-length: 11\r\nx-a: 1\r\n\r\nhello world",
  "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nx-t: 1\r\n\r\n",
  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno",
  "HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nto the end",
  "HTTP/1.1 204 No Content\r\nx-a: 1\r\nX-A: 2\r\n\r\n",
  "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno",
];
const PIECES = [
  "\r\n",
  "\n",
  "\r",
  " ",
  "\t",
  ":",
  "0",
  "f",
  ";",
  "\x00",
  "\xff",
  "chunked",
  "content-length: 3\r\n",
  "transfer-encoding: chunked\r\n",
  "transfer-encoding: identity\r\n",
  " folded\r\n",
  "\r\n\r\n",
  "0\r\n\r\n",
  "ffffffffffffffff",
  "-1",
  "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsmuggled",
];

/** What a response means to a parser. */
export interface Verdict {
  readonly heads: unknown[];
  readonly body: string;
  readonly state: ParsedState;
}

/** What a parser makes of the bytes, given to it in pieces that end at `cuts`. */
export function verdictOf(bytes: Buffer, cuts: readonly number[]): Verdict {
  const parser = new ResponseParser();
  const heads: unknown[] = [];
  let body = "";
  parser.begin({
    bodiless: false,
    onHead: (status, headers) => heads.push([status, headers]),
    onBody: (chunk) => body += Buffer.from(chunk).toString("latin1"),
  });
  let state: ParsedState = "open";
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    if (to === from) continue;
    // A copy, as each read of a socket has bytes of its own.
    state = parser.parse(Buffer.from(bytes.subarray(from, to)));
    from = to;
    if (state !== "open") break;
  }
  if (state === "open") state = parser.finish();
  // Bytes that come in a later read end the connection then.
  else if (state === "ended" && from < bytes.length) state = "ended_for_good";
  parser.free();
  return { heads, body, state };
}

/** A response with up to three mutations. */
export function mutatedResponse(random: Random): Buffer {
  return Buffer.from(mutated(random.pick(SEEDS), PIECES, random), "latin1");
}
