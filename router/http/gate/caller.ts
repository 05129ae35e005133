import { networkInterfaces } from "node:os";
import { hostnameOf, isLoopback } from "../../../base/hosts.ts";
import type { Call } from "./context.ts";

/** What Deno hands to a handler beside the request. */
interface DenoCallInfo {
  readonly remoteAddr: { readonly hostname: string };
}

/** What Bun does: its server. */
interface BunCallInfo {
  requestIP(request: Request): { readonly address: string } | null;
}

/** Headers that a proxy writes: behind one, all requests come from its own address. */
const PROXY_HEADERS = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/**
 * True for a request that a program on this host sent by itself: from one of its addresses, without a proxy between,
 * and to an address or to localhost (a page whose own name was bound to our address asks for that name).
 */
export function isFromThisHost({ env, req }: Call): boolean {
  const address = callerAddress(env, req.raw)?.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "");
  if (address === undefined || PROXY_HEADERS.some((name) => req.header(name) !== undefined)) return false;
  const asked = hostnameOf(req.header("host") ?? new URL(req.url).host) ?? "";
  if (!isLoopback(asked) && !/^(?:[\d.]+|\[[\da-f:.]+\])$/i.test(asked)) return false;
  if (isLoopback(address)) return true;
  return Object.values(networkInterfaces()).some((all) =>
    all?.some((one) => one.address === address) ?? false
  );
}

/** The address that a request came from, as the runtime's server says; undefined without one. */
export function callerAddress(env: unknown, request: Request): string | undefined {
  if (typeof env !== "object" || env === null) return undefined;
  if (isDeno(env)) return env.remoteAddr.hostname;
  return isBun(env) ? env.requestIP(request)?.address : undefined;
}

function isDeno(env: object): env is DenoCallInfo {
  return "remoteAddr" in env;
}

function isBun(env: object): env is BunCallInfo {
  return "requestIP" in env;
}
