import { CanopyError } from "../../../base/errors.ts";
import { listenError } from "../../../base/listen_error.ts";
import type { Address } from "./listeners.ts";
import { serveHttp } from "./serve_http.ts";

/**
 * Finds out that nobody listens at an address, which servers that share a port would not notice; gives the port, a free
 * one for 0. Throws `CanopyError` (500) when it is taken, or when this runtime cannot share one.
 */
export async function claimPort({ host, port }: Address): Promise<number> {
  const runtime: object = globalThis;
  if ("Deno" in runtime && !canSharePorts(runtime.Deno)) {
    throw new CanopyError(
      "Cannot serve with several threads: Deno shares a port among them only when it is started with --unstable-net",
      { code: "unstable_net_needed", status: 500 },
    );
  }
  try {
    const server = serveHttp({ fetch: () => new Response(null, { status: 503 }) }, { host, port });
    await server.shutdown();
    return Number(new URL(server.url).port);
  } catch (cause) {
    throw listenError(host, port, cause);
  }
}

/** Deno has this function only with the flag that sharing a port needs. */
function canSharePorts(deno: unknown): boolean {
  return typeof deno === "object" && deno !== null && "listenDatagram" in deno;
}
