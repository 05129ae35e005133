import { joined } from "../../../base/bytes.ts";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import { parseJsonExactly } from "../../../base/int64.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { saysJson } from "../../wire/headers.ts";
import { findJsonFault } from "../../wire/json_scan.ts";

/**
 * Reads a request's body whole. Throws 413 above `maxBytes`, 415 for a compressed body, the signal's reason
 * when the client leaves meanwhile.
 */
export async function readBody(
  request: Request,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase();
  if (encoding !== undefined && encoding !== "" && encoding !== "identity") {
    throw new CanopyError(
      `Cannot read a body with content-encoding ${
        JSON.stringify(encoding.slice(0, 40))
      }: send it uncompressed`,
      { code: "unsupported_content_encoding", status: 415, param: "content-encoding" },
    );
  }
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > maxBytes) throw tooLarge(`${declared} bytes`, maxBytes);
  if (request.body === null) return new Uint8Array();

  const reader = request.body.getReader();
  const onAbort = () => void reader.cancel(signal.reason).catch(() => {});
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    let length = 0;
    while (true) {
      signal.throwIfAborted();
      const { done, value } = await reader.read();
      if (done) break;
      length += value.byteLength;
      if (length > maxBytes) {
        await reader.cancel().catch(() => {});
        throw tooLarge("more", maxBytes);
      }
      chunks.push(value);
    }
    signal.throwIfAborted();
    return joined(chunks);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
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

const utf8 = new TextDecoder("utf-8", { fatal: true });
const lenientUtf8 = new TextDecoder("utf-8");

/** Members that engines take with 64 bits. */
const SEEDS = ["seed", "sampling_seed"];

/** Parses a body as a JSON object; a UTF-8 byte order mark is skipped. Throws 400 naming the position of a fault. */
export function parseJsonObject(body: Uint8Array | string): JsonObject {
  const text = typeof body === "string" ? body : decodeUtf8(body);
  let value: unknown;
  try {
    value = parseJsonExactly(text, SEEDS);
  } catch {
    throw invalidJson(text);
  }
  if (!isJsonObject(value)) {
    const got = value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
    throw badRequest("body", `The body must be a JSON object, it is ${got}`, "invalid_json");
  }
  return value;
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    const position = lenientUtf8.decode(bytes).indexOf("\ufffd");
    throw badRequest(
      "body",
      `The body is not valid UTF-8 at character ${position}: send JSON in UTF-8`,
      "invalid_json",
    );
  }
}

function invalidJson(text: string): CanopyError {
  const bytes = new TextEncoder().encode(text);
  const fault = findJsonFault(bytes);
  let problem = "cannot be parsed as JSON: it is nested too deeply or too large";
  if (text.trim() === "") problem = "is empty: send a JSON object (position 0)";
  else if (fault !== undefined) {
    const position = utf8.decode(bytes.subarray(0, fault.at)).length;
    const found = [...text.slice(position, position + 2)][0];
    const shown = found === undefined ? "the end of the body" : JSON.stringify(found);
    problem = `is not valid JSON at position ${position}: expected ${fault.expected}, found ${shown}`;
  }
  return badRequest("body", `The body ${problem}`, "invalid_json");
}

/** Deepest nesting of lists and objects inside one field of a request to a virtual model. */
const MAX_DEPTH = 100;

/**
 * Throws 400 naming the top-level field that nests deeper than any client needs (and than recursion can bear). Values
 * are walked, not bytes: a prompt of megabytes is one step.
 */
export function refuseDeepNesting(body: JsonObject): void {
  for (const [name, field] of Object.entries(body)) {
    let level: unknown[] = typeof field === "object" && field !== null ? [field] : [];
    for (let depth = 1; level.length > 0; depth++) {
      if (depth > MAX_DEPTH) {
        throw badRequest(name, `${name} is nested deeper than ${MAX_DEPTH} levels: flatten it`);
      }
      const next: unknown[] = [];
      for (const node of level) {
        for (const child of Array.isArray(node) ? node : Object.values(node as object)) {
          if (typeof child === "object" && child !== null) next.push(child);
        }
      }
      level = next;
    }
  }
}
