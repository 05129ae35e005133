import process from "node:process";
import type { Transport } from "../../base/transport.ts";
import { FetchTransport } from "./fetch.ts";
import { UndiciTransport } from "./undici.ts";

/**
 * The transport that fits the runtime, both measured: under Deno undici (its `fetch` re-sends a POST when a kept
 * socket turns out dead, and costs several times more per chunk); under Bun `fetch` (there node:net sockets, and
 * so undici, go on reading when paused). `ca`: certificates (PEM) to trust instead of the system's.
 */
export function systemTransport(options: { readonly ca?: string } = {}): Transport {
  return process.versions.bun === undefined ? new UndiciTransport(options) : new FetchTransport(options);
}

/**
 * Requests that the runtime lets run at once; undefined when there is no limit. Under Bun it is fixed when the
 * process starts: set `BUN_CONFIG_MAX_HTTP_REQUESTS` in its environment to raise it.
 */
export function transportRequestLimit(): number | undefined {
  if (process.versions.bun === undefined) return undefined;
  const configured = Number(process.env.BUN_CONFIG_MAX_HTTP_REQUESTS);
  return Number.isInteger(configured) && configured > 0 ? configured : 256;
}
