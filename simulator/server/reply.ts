import type { Clock } from "../../base/clock.ts";
import type { Json, JsonObject } from "../../base/json.ts";
import type { OutgoingRequest } from "../../base/transport.ts";

/** A request with its parts taken apart. */
export interface ServedRequest {
  readonly method: OutgoingRequest["method"];
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** Called once, when the client closes its socket before the answer is complete. */
  onClose: (() => void) | undefined;
}

/** The events of a stream one by one, as text or as UTF-8. */
export type Events = AsyncGenerator<string | Uint8Array, void, void>;

/** Answer of a route: a whole body, or events one by one. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Events;
  /** Without the header of the CORS layer: exceptions that no handler caught, and bootstrap registries. */
  readonly bare?: true;
}

/** An answer that is not what the client hoped for; thrown by checks of a request. */
export class Refusal extends Error {
  readonly reply: Reply;

  constructor(reply: Reply) {
    super(`Request refused with status ${reply.status}`);
    this.reply = reply;
  }
}

/** A JSON answer. */
export function jsonReply(status: number, body: Json): Reply {
  return { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

/** An answer without a body. */
export function emptyReply(status = 200): Reply {
  return { status, headers: {}, body: "" };
}

/** A text answer. */
export function textReply(status: number, body: string, type = "text/plain; charset=utf-8"): Reply {
  return { status, headers: { "content-type": type }, body };
}

/** A server-sent event stream. */
export function streamReply(events: Events): Reply {
  return { status: 200, headers: { "content-type": "text/event-stream; charset=utf-8" }, body: events };
}

/** FastAPI's own 404 and 405. */
export function detailReply(status: 404 | 405, allow?: string): Reply {
  const reply = jsonReply(status, { detail: status === 404 ? "Not Found" : "Method Not Allowed" });
  return allow === undefined ? reply : { ...reply, headers: { ...reply.headers, allow } };
}

/** A reply's headers, with those that uvicorn adds. */
export function headersOf(
  reply: Reply,
  clock: Clock,
  contentLength: number | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {
    date: new Date(clock.unixEpochMs + clock.now()).toUTCString(),
    server: "uvicorn",
    ...(reply.bare === true ? {} : { vary: "Origin" }),
    ...reply.headers,
  };
  if (contentLength !== undefined) headers["content-length"] = String(contentLength);
  return headers;
}

/** A value as Python's `repr` shows it in pydantic's messages. */
export function pythonRepr(value: Json): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") {
    const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
    const escaped = value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
    return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
  }
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(", ")}]`;
  return `{${
    Object.entries(value).map(([key, item]) => `${pythonRepr(key)}: ${pythonRepr(item)}`).join(", ")
  }}`;
}

/** A field that may be absent or null. */
export function optional(body: JsonObject, name: string): Exclude<Json, null> | undefined {
  return body[name] ?? undefined;
}

/** A boolean field; false when it is absent, null or something else. */
export function flag(body: JsonObject, name: string): boolean {
  return body[name] === true;
}
