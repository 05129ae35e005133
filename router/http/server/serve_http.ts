import type { Fetches } from "./fetches.ts";
import { NO_URL, noRequestBody } from "./no_request.ts";
import { type BunListens, SocketServer } from "./socket_server.ts";
import type { TlsPair } from "./tls_files.ts";

/** A server that listens. */
export interface HttpServer {
  /** Such as `http://127.0.0.1:8000`, with the port that was really taken. */
  readonly url: string;
  /** Refuses new connections; resolves when the requests in flight have been answered. */
  shutdown(): Promise<void>;
}

interface DenoServer {
  readonly addr: { readonly port: number };
  shutdown(): Promise<void>;
}

interface DenoRuntime {
  serve(
    options: {
      hostname: string;
      port: number;
      reusePort: boolean;
      onListen: () => void;
      cert?: string;
      key?: string;
    },
    handler: (request: Request, info: object) => Response | Promise<Response>,
  ): DenoServer;
}

interface BunServer {
  readonly port: number;
  stop(closeActive: boolean): Promise<void>;
}

interface BunRuntime extends BunListens {
  serve(options: {
    hostname: string;
    port: number;
    idleTimeout: number;
    maxRequestBodySize: number;
    development: boolean;
    reusePort: boolean;
    tls?: TlsPair;
    fetch: (request: Request, server: object) => Response | Promise<Response>;
  }): BunServer;
}

/**
 * Starts the runtime's own HTTP server, or with `tls` its HTTPS server. With `sharesPort` others that say so too may
 * listen there, and the kernel spreads the connections. Throws when the address cannot be taken.
 */
export function serveHttp(
  app: Fetches,
  options: { host: string; port: number; tls?: TlsPair | undefined; sharesPort?: boolean | undefined },
): HttpServer {
  const { host, port, tls, sharesPort = false } = options;
  const scheme = tls === undefined ? "http" : "https";
  // The runtimes let a target pass that names a host which is none.
  const handler = (request: Request, env: object) =>
    URL.canParse(request.url) ? app.fetch(request, env) : noUrl();
  const runtime: object = globalThis;
  if (hasDeno(runtime)) {
    const listening = { hostname: host, port, reusePort: sharesPort, onListen: () => {}, ...tls };
    const server = runtime.Deno.serve(listening, handler);
    return { url: urlOf(scheme, host, server.addr.port), shutdown: () => server.shutdown() };
  }
  if (hasBun(runtime) && tls === undefined) {
    const server = new SocketServer(runtime.Bun, app, { host, port, sharesPort });
    return { url: urlOf(scheme, host, server.port), shutdown: () => server.shutdown() };
  }
  if (hasBun(runtime)) {
    const server = runtime.Bun.serve({
      hostname: host,
      port,
      // Bun cuts quiet streams after 10 s otherwise; a tree may think for minutes before its first byte.
      idleTimeout: 0,
      // The app has its own limit, with an error that says so.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      development: false,
      // Without "development", Bun lets a second server take the same port, and the two answer by turns.
      reusePort: sharesPort,
      ...(tls === undefined ? {} : { tls }),
      fetch: handler,
    });
    return { url: urlOf(scheme, host, server.port), shutdown: () => server.stop(false) };
  }
  throw new Error("Cannot serve HTTP: neither Deno nor Bun is running this program");
}

function noUrl(): Response {
  const headers = { "content-type": "application/json" };
  return new Response(noRequestBody(400, NO_URL), { status: 400, headers });
}

function hasDeno(scope: object): scope is { Deno: DenoRuntime } {
  return "Deno" in scope;
}

function hasBun(scope: object): scope is { Bun: BunRuntime } {
  return "Bun" in scope;
}

function urlOf(scheme: string, host: string, port: number): string {
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
