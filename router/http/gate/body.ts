import type { StopSignal } from "../../../base/stop_signal.ts";
import { joinedInTurns } from "../../../base/bytes.ts";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import { parseJsonExactly } from "../../../base/int64.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { saysJson } from "../../wire/headers.ts";
import { headerRecordOf } from "../server/client_request.ts";
import type { Clock } from "../../../base/clock.ts";
import { atOnce, turnByTurn, type Turns } from "../../../base/turns.ts";
import { decodeUtf8 } from "../../wire/utf8.ts";
import { findJsonFault, JsonFault } from "../../wire/json_scan.ts";
import { parseJsonInTurns, TURN_BYTES } from "../../wire/parse_json.ts";

/** Options of `readBody`. */
export interface ReadBodyOptions {
  readonly maxBytes: number;
  /** Those of the request by lower-case names, where they have been read. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** With it a long body is put together in turns. */
  readonly clock?: Clock | undefined;
  /** Aborts when the client has gone. */
  readonly signal: StopSignal;
}

/**
 * Reads a request's body whole. Throws 413 above `maxBytes`, 415 for a compressed body, the signal's reason
 * when the client leaves meanwhile, and 400 for one that does not come to its end.
 */
export function readBody(
  request: Request,
  options: ReadBodyOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const { maxBytes, signal, headers = headerRecordOf(request) } = options;
  const encoding = headers["content-encoding"]?.trim().toLowerCase();
  const declared = headers["content-length"];
  if (encoding !== undefined && encoding !== "" && encoding !== "identity") {
    return Promise.reject(compressed(encoding));
  }
  const length = Number(declared ?? 0);
  if (length > maxBytes) return Promise.reject(tooLarge(`${declared} bytes`, maxBytes));
  if (declared === undefined || length > AT_ONCE_BYTES) return readPieces(request, options);
  // What has come with its head needs no stream.
  return request.bytes().then((bytes) => {
    signal.throwIfAborted();
    return bytes;
  }, (error) => {
    throw signal.aborted ? signal.reason : incomplete(error);
  });
}

function compressed(encoding: string): CanopyError {
  return new CanopyError(
    `Cannot read a body with content-encoding ${JSON.stringify(encoding.slice(0, 40))}: send it uncompressed`,
    { code: "unsupported_content_encoding", status: 415, param: "content-encoding" },
  );
}

/** Longest body that is left to the runtime to put together. */
const AT_ONCE_BYTES = 1024 * 1024;
/** Bytes of a longer one that are read in a turn. */
const TURN_READ_BYTES = 1024 * 1024;

async function readPieces(
  request: Request,
  { maxBytes, clock, signal }: ReadBodyOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  if (request.body === null) return new Uint8Array();
  const reader = request.body.getReader();
  const onAbort = () => void reader.cancel(signal.reason).catch(() => {});
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    let length = 0;
    let turnEnd = TURN_READ_BYTES;
    while (true) {
      signal.throwIfAborted();
      const { done, value } = await reader.read().catch((error) => {
        signal.throwIfAborted();
        throw incomplete(error);
      });
      if (done) break;
      length += value.byteLength;
      if (length > maxBytes) {
        await reader.cancel().catch(() => {});
        throw tooLarge("more", maxBytes);
      }
      chunks.push(value);
      // What has all arrived would be read in one turn.
      if (clock !== undefined && length >= turnEnd) {
        turnEnd = length + TURN_READ_BYTES;
        await clock.sleep(0, signal);
      }
    }
    signal.throwIfAborted();
    const all = joinedInTurns(chunks);
    return clock === undefined ? atOnce(all) : await turnByTurn(clock, all, signal);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** The client closed its side of the connection, or its chunks are none: that is seen before it is known to have gone. */
function incomplete(cause: unknown): CanopyError {
  return new CanopyError(
    "The body cannot be read to its end: it broke off, or its chunks are malformed; send it whole",
    { code: "incomplete_body", status: 400, param: "body", cause },
  );
}

/** Throws `unsupported_content_type` (415): a page may send any other type to any server, without asking first. */
export function requireJson(request: Pick<Request, "headers">): void {
  const sent = request.headers.get("content-type") ?? undefined;
  if (saysJson(sent)) return;
  const message = `This route takes JSON, and ${
    sent === undefined || sent === ""
      ? "no content-type was sent"
      : `the content-type is ${JSON.stringify(sent.slice(0, 100))}`
  }: send content-type: application/json`;
  throw new CanopyError(message, { code: "unsupported_content_type", status: 415, param: "content-type" });
}

function tooLarge(size: string, maxBytes: number): CanopyError {
  return new CanopyError(`The body is too large: at most ${maxBytes} bytes are accepted, it has ${size}`, {
    code: "body_too_large",
    status: 413,
    param: "body",
  });
}

const lenientUtf8 = new TextDecoder("utf-8");

/** Members that engines take with 64 bits. */
const SEEDS = ["seed", "sampling_seed"];
/** Longest body that is parsed at once. */
const INLINE_BYTES = 128 * 1024;

/** Options of `parseBody`. */
export interface ParseBodyOptions {
  readonly clock: Clock;
  /** Aborts when the client has gone. */
  readonly signal?: StopSignal | undefined;
}

const encoder = new TextEncoder();

/**
 * Parses a body as a JSON object, a long one in turns of the event loop; a UTF-8 byte order mark is skipped. Throws, or
 * rejects with, a 400 naming the position of a fault.
 */
export function parseBody(
  body: Uint8Array | string,
  options: ParseBodyOptions,
): JsonObject | Promise<JsonObject> {
  if (body.length <= INLINE_BYTES) return parseJsonObject(body);
  return parseLongBody(typeof body === "string" ? encoder.encode(body) : body, options);
}

async function parseLongBody(body: Uint8Array, { clock, signal }: ParseBodyOptions): Promise<JsonObject> {
  try {
    return requireObject(await turnByTurn(clock, parseJsonInTurns(body, { exact: SEEDS }), signal));
  } catch (error) {
    if (error instanceof JsonFault) throw await turnByTurn(clock, faultOf(body, error), signal);
    if (error instanceof TypeError) throw await turnByTurn(clock, invalidUtf8(body), signal);
    throw error instanceof SyntaxError || error instanceof RangeError ? badJson(TOO_DEEP) : error;
  }
}

/** Parses a short body at once; otherwise like `parseBody`. */
export function parseJsonObject(body: Uint8Array | string): JsonObject {
  const text = typeof body === "string" ? body : decode(body);
  let value: unknown;
  try {
    value = parseJsonExactly(text, SEEDS);
  } catch {
    throw invalidJson(text);
  }
  return requireObject(value);
}

function requireObject(value: unknown): JsonObject {
  if (isJsonObject(value)) return value;
  const got = value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
  throw badRequest("body", `The body must be a JSON object, it is ${got}`, "invalid_json");
}

function decode(bytes: Uint8Array): string {
  try {
    return decodeUtf8(bytes);
  } catch {
    throw notUtf8(lenientUtf8.decode(bytes).indexOf("\ufffd"));
  }
}

function invalidJson(text: string): CanopyError {
  const bytes = encoder.encode(text);
  const fault = findJsonFault(bytes);
  if (text.trim() === "") return badJson("is empty: send a JSON object (position 0)");
  if (fault === undefined) return badJson(TOO_DEEP);
  return faultAt(lenientUtf8.decode(bytes.subarray(0, fault.at)).length, bytes, fault);
}

const TOO_DEEP = "cannot be parsed as JSON: it is nested too deeply or too large";

function* faultOf(bytes: Uint8Array, fault: JsonFault): Turns<CanopyError> {
  let position = 0;
  for (const text of textsOf(bytes.subarray(0, fault.at))) {
    position += text.length;
    yield;
  }
  return faultAt(position, bytes, fault);
}

function faultAt(position: number, bytes: Uint8Array, fault: JsonFault): CanopyError {
  const found = [...lenientUtf8.decode(bytes.subarray(fault.at, fault.at + 8))][0];
  const shown = found === undefined ? "the end of the body" : JSON.stringify(found);
  return badJson(`is not valid JSON at position ${position}: expected ${fault.expected}, found ${shown}`);
}

function* invalidUtf8(bytes: Uint8Array): Turns<CanopyError> {
  let position = 0;
  for (const text of textsOf(bytes)) {
    const at = text.indexOf("\ufffd");
    if (at >= 0) return notUtf8(position + at);
    position += text.length;
    yield;
  }
  return notUtf8(position);
}

/** The text of bytes in parts, each of a turn. */
function* textsOf(bytes: Uint8Array): Generator<string, void, void> {
  const decoder = new TextDecoder("utf-8");
  for (let at = 0; at < bytes.length; at += TURN_BYTES) {
    yield decoder.decode(bytes.subarray(at, at + TURN_BYTES), { stream: true });
  }
}

function badJson(problem: string): CanopyError {
  return badRequest("body", `The body ${problem}`, "invalid_json");
}

function notUtf8(position: number): CanopyError {
  const message = `The body is not valid UTF-8 at character ${position}: send JSON in UTF-8`;
  return badRequest("body", message, "invalid_json");
}

/** Deepest nesting of lists and objects inside one field of a request to a virtual model. */
const MAX_DEPTH = 100;
/** Most lists and objects inside one field: each is read several times. */
const MAX_NODES = 32_768;
/** Values that are walked in a turn. */
const TURN_VALUES = 64 * 1024;

/**
 * Throws 400 naming the top-level field that nests deeper than any client needs (and than recursion can bear), or has
 * more parts. Values are walked, not bytes: a prompt of megabytes is one step.
 */
export function* refuseSprawl(body: JsonObject): Turns<void> {
  let values = 0;
  for (const [name, field] of Object.entries(body)) {
    let level: unknown[] = typeof field === "object" && field !== null ? [field] : [];
    let nodes = level.length;
    for (let depth = 1; level.length > 0; depth++) {
      if (depth > MAX_DEPTH) {
        throw badRequest(name, `${name} is nested deeper than ${MAX_DEPTH} levels: flatten it`);
      }
      const next: unknown[] = [];
      for (const node of level) {
        for (const child of Array.isArray(node) ? node : Object.values(node as object)) {
          if (++values % TURN_VALUES === 0) yield;
          if (typeof child !== "object" || child === null) continue;
          if (++nodes > MAX_NODES) {
            throw badRequest(name, `${name} has more than ${MAX_NODES} lists and objects: shorten it`);
          }
          next.push(child);
        }
      }
      level = next;
    }
  }
}
