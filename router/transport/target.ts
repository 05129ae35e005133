import { Buffer } from "node:buffer";

/** The server that a URL names, and the URL's part in the request line. */
export interface Target {
  /** Scheme, host and port: requests of one origin share connections. */
  readonly origin: string;
  readonly tls: boolean;
  /** Name or address, an IPv6 address without brackets. */
  readonly host: string;
  readonly port: number;
  /** The `host` header. */
  readonly authority: string;
  /** The `authorization` header for the name and password in the URL; undefined for none. */
  readonly authorization: string | undefined;
  /** Path and query, percent-encoded. */
  readonly path: string;
}

/** Reads an absolute http(s) URL; throws a `TypeError` for anything else. */
export function targetOf(url: string): Target {
  const { protocol, hostname, port, host, pathname, search, origin, username, password } = new URL(url);
  const tls = protocol === "https:";
  if (!tls && protocol !== "http:") {
    throw new TypeError(`Cannot send to ${url}: the scheme must be http or https`);
  }
  return {
    origin,
    tls,
    host: hostname.startsWith("[") ? hostname.slice(1, -1) : hostname,
    port: port === "" ? (tls ? 443 : 80) : Number(port),
    authority: host,
    authorization: username === "" && password === ""
      ? undefined
      : `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString("base64")}`,
    path: pathname + search,
  };
}

/** A part of a URL as it was before it was percent-encoded; as it is where it was not. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
