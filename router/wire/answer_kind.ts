/** Paths whose event streams end with `[DONE]`. */
const DONE_PATHS = new Set(["/v1/chat/completions", "/v1/completions", "/generate"]);

/** True for server-sent events that can be read as they are. */
export function isEventStream(headers: Readonly<Record<string, string>>): boolean {
  const coding = headers["content-encoding"] ?? "identity";
  return coding === "identity" && (headers["content-type"] ?? "").startsWith("text/event-stream");
}

/** True when an event stream of this status and path is whole only with `[DONE]` as its last event. */
export function endsWithDone(status: number, path: string): boolean {
  return status === 200 && DONE_PATHS.has(path);
}

/** True when the first chunk is the whole body: then it needs no stream. */
export function isWhole(headers: Readonly<Record<string, string>>, first: Uint8Array): boolean {
  return headers["content-length"] === String(first.length);
}
