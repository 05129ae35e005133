import { Buffer } from "node:buffer";
import type { Random } from "../../base/random.ts";
import { mutated } from "../mutations.ts";

const COMPLETION = '{"model":"m","prompt":"Hi","max_tokens":4}';
const STREAM = '{"model":"m","prompt":"Hi","max_tokens":4,"stream":true}';
const CHAT = '{"model":"p","messages":[{"role":"user","content":"Hi"}]}';

/** A path that no request of these means to ask for: a worker that sees it was reached by a smuggled request. */
export const SMUGGLED_PATH = "/smuggled";

function post(path: string, body: string, more = ""): string {
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${more}` +
    `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function chunked(path: string, body: string): string {
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n` +
    `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
}

/** Requests in order. */
const GOOD = [
  post("/v1/completions", COMPLETION),
  post("/v1/completions", STREAM),
  post("/v1/chat/completions", CHAT),
  post("/generate", '{"text":"Hi","sampling_params":{"max_new_tokens":4}}'),
  chunked("/v1/completions", COMPLETION),
  "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "HEAD /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\norigin: http://b\r\n\r\n",
  post("/v1/completions", COMPLETION) + "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n",
];

const SMUGGLED = `POST ${SMUGGLED_PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n`;

/** Attacks as they are written about. */
const BAD = [
  `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
  `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 50\r\n\r\n{"a"}${SMUGGLED}`,
  `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
  `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n`,
  `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n`,
  "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n",
  "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc\r\n",
  "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n",
  "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\nabc",
  "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\nabc",
  `GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-a: b\r\n folded: ${SMUGGLED_PATH}\r\n\r\n`,
  `GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-request-id: a\rb\nPOST ${SMUGGLED_PATH} HTTP/1.1\r\n\r\n`,
  "GET http://elsewhere/v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "GET /v1/models HTTP/0.9\r\n\r\n",
  "GET /v1/models HTTP/9.9\r\nhost: localhost\r\n\r\n",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  `CONNECT workers:80 HTTP/1.1\r\nhost: localhost\r\n\r\n${SMUGGLED}`,
  "GET /v1/models HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
  "GET /%00%ff%2e%2e/v1/../v1/models?x=\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "GET /v1/models HTTP/1.1\r\n\r\n",
  "GET  /v1/models  HTTP/1.1\r\nhost: localhost\r\n\r\n",
];

const PIECES = [
  "\r\n",
  "\n",
  "\r",
  " ",
  "\t",
  ":",
  "\x00",
  "\xff",
  ";",
  "{",
  '"',
  "content-length: 3\r\n",
  "transfer-encoding: chunked\r\n",
  "expect: 100-continue\r\n",
  "connection: close\r\n",
  "x-request-id: \x7f\xe2\x82\r\n",
  "\r\n\r\n",
  "[[[[[[[[",
  '\\ud800"',
  "1e999",
];

/** JSON bodies that are hard on whoever reads them. */
function hardBody(random: Random): string {
  const depth = 1 + random.int(3_000);
  return random.pick([
    `{"model":"m","prompt":${"[".repeat(depth)}${"]".repeat(depth)}}`,
    `{"model":"m","prompt":"Hi","max_tokens":${"9".repeat(1 + random.int(400))}}`,
    `{"model":"m","model":"p","prompt":"Hi","prompt":null}`,
    `{"model":"m","prompt":"${"x".repeat(random.int(200_000))}"}`,
    `{"model":"p","text":${JSON.stringify(Array(random.int(300)).fill("a"))},"rid":["a"]}`,
    `{"__proto__":{"model":"m"},"constructor":1,"model":"m","prompt":"\\u0000"}`,
    `\ufeff{"model":"m","prompt":"Hi"}`,
    `{"model":"m","prompt":"Hi","stream":"yes","n":-1,"stop":{}}`,
  ]);
}

/** The bytes that a client sends over one connection. */
export function rawRequest(random: Random): Buffer {
  const kind = random.int(10);
  if (kind === 0) return Buffer.from(post(random.pick(["/v1/completions", "/generate"]), hardBody(random)));
  if (kind === 1) {
    const header = `x-${"a".repeat(random.int(100))}: ${"b".repeat(random.int(60_000))}\r\n`;
    return Buffer.from(post("/v1/completions", COMPLETION, header.repeat(1 + random.int(3))));
  }
  if (kind === 2) return Buffer.from(random.pick(BAD), "latin1");
  let text = mutated(random.pick(kind < 5 ? BAD : GOOD), PIECES, random);
  // Some leave in the middle.
  if (random.int(6) === 0) text = text.slice(0, random.int(text.length + 1));
  return Buffer.from(text, "latin1");
}
