/** Headers that belong to one connection (RFC 9110, 7.6.1). */
const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];
/** The client's dealings with us: its credentials are for this router, not for a worker. */
const NOT_FORWARDED = new Set([
  ...HOP_BY_HOP,
  "host",
  "content-length",
  "expect",
  "accept-encoding",
  "authorization",
  "api-key",
  "x-api-key",
  "cookie",
]);
/** Headers that the HTTP server in front writes itself. */
const NOT_RETURNED = new Set([...HOP_BY_HOP, "content-length", "date"]);

/** The headers of a request to a worker: the client's, less what is not the worker's business, plus the worker's own. */
export function forwardedHeaders(
  client: Readonly<Record<string, string>>,
  worker: Readonly<Record<string, string>>,
  requestId: string,
): Record<string, string> {
  return {
    ...without(client, NOT_FORWARDED),
    "x-request-id": requestId,
    "accept-encoding": "identity",
    ...worker,
  };
}

/** The headers of an answer to the client. */
export function returnedHeaders(worker: Readonly<Record<string, string>>, requestId: string): Headers {
  const headers = new Headers(without(worker, NOT_RETURNED));
  headers.set("x-request-id", requestId);
  return headers;
}

function without(
  headers: Readonly<Record<string, string>>,
  dropped: ReadonlySet<string>,
): Record<string, string> {
  const named = new Set((headers["connection"] ?? "").split(",").map((name) => name.trim().toLowerCase()));
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    // SGLang takes a peer or an id from such a header, where it is allowed to: those are ours to give.
    if (!dropped.has(name) && !named.has(name) && !name.startsWith("x-override-")) kept[name] = value;
  }
  return kept;
}

/** True for a content type that is JSON's. */
export function saysJson(contentType: string | undefined): boolean {
  return /^\s*application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType ?? "");
}
