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

/** The headers of a client's request that are the workers' business, and the request's id. */
export function forwardedHeaders(
  client: Readonly<Record<string, string>>,
  requestId: string,
): Record<string, string> {
  const headers = without(client, NOT_FORWARDED);
  headers["x-request-id"] = requestId;
  headers["accept-encoding"] = "identity";
  return headers;
}

/** The headers of an answer to the client. */
export function returnedHeaders(
  worker: Readonly<Record<string, string>>,
  requestId: string,
): Record<string, string> {
  const headers = without(worker, NOT_RETURNED);
  headers["x-request-id"] = requestId;
  return headers;
}

function without(
  headers: Readonly<Record<string, string>>,
  dropped: ReadonlySet<string>,
): Record<string, string> {
  const named = namedIn(headers["connection"]);
  const kept: Record<string, string> = {};
  for (const name in headers) {
    // SGLang takes a peer or an id from such a header, where it is allowed to: those are ours to give.
    if (dropped.has(name) || name.startsWith("x-override-") || named?.has(name)) continue;
    kept[name] = headers[name]!;
  }
  return kept;
}

/** The headers that a `connection` header names; undefined for the ordinary ones. */
function namedIn(connection: string | undefined): ReadonlySet<string> | undefined {
  if (connection === undefined || connection === "keep-alive" || connection === "close") return undefined;
  return new Set(connection.split(",").map((name) => name.trim().toLowerCase()));
}

/** Headers by their lower-case names. */
export function headerRecord(headers: Headers): Record<string, string> {
  // Bun's own way costs a fraction of walking them.
  return hasRecord(headers) ? headers.toJSON() : Object.fromEntries(headers);
}

function hasRecord(headers: object): headers is { toJSON(): Record<string, string> } {
  return "toJSON" in headers;
}

/** True for a content type that is JSON's. */
export function saysJson(contentType: string | undefined): boolean {
  return /^\s*application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType ?? "");
}
