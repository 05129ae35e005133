import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { joined } from "../base/bytes.ts";
import { listenError } from "../base/listen_error.ts";
import type { OutgoingRequest } from "../base/transport.ts";
import { BOOTSTRAP_PORT } from "./pd/role.ts";
import type { Simulator, SimulatorOptions } from "./server/simulator_options.ts";
import { createSimulator } from "./simulator.ts";

/** A simulator that listens on a port. */
export interface ListeningSimulator {
  /** Base URL, such as `http://127.0.0.1:8100`. */
  readonly url: string;
  readonly simulator: Simulator;
  /** Port of a SGLang prefill server's bootstrap registry. */
  readonly bootstrapPort: number | undefined;
  /** Stops listening and cuts open connections. */
  close(): Promise<void>;
}

/** uvicorn closes idle connections after 5 s. */
const IDLE_MS = 5000;
const METHODS = ["GET", "POST", "HEAD", "DELETE", "PUT"] as const;

/**
 * Starts a simulated engine on a port (0: any free one); a SGLang prefill server's registry listens on a second one,
 * the `bootstrapPort` of its pair options (0: any free one). Rejects when a port cannot be used.
 */
export async function startSimulator(
  options: SimulatorOptions & { readonly host?: string; readonly port?: number },
): Promise<ListeningSimulator> {
  const host = options.host ?? "127.0.0.1";
  const { pd } = options;
  const handler = { simulator: undefined as Simulator | undefined };
  const withRegistry = pd?.role === "prefill" && options.engine === "sglang";
  const registry = withRegistry ? await listen(handler, host, pd.bootstrapPort ?? BOOTSTRAP_PORT) : undefined;
  let api: Listener;
  try {
    api = await listen(handler, host, options.port ?? 0);
  } catch (error) {
    await registry?.close();
    throw error;
  }
  const simulator = createSimulator({
    ...options,
    pd: pd !== undefined && registry !== undefined
      ? { ...pd, bootstrapPort: registry.port, httpPort: api.port }
      : pd,
  });
  handler.simulator = simulator;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${api.port}`,
    simulator,
    bootstrapPort: registry?.port,
    async close() {
      simulator.close();
      await Promise.all([api.close(), registry?.close()]);
    },
  };
}

interface Listener {
  readonly port: number;
  close(): Promise<void>;
}

/** Listens for a simulator that is about to be made. */
async function listen(
  handler: { readonly simulator: Simulator | undefined },
  host: string,
  wanted: number,
): Promise<Listener> {
  let port = wanted;
  const server = createServer({ keepAliveTimeout: IDLE_MS }, (request, response) => {
    const { simulator } = handler;
    if (simulator === undefined) response.destroy();
    else serve(simulator, port, request, response).catch(() => response.destroy());
  });
  server.listen(wanted, host);
  try {
    await once(server, "listening");
  } catch (cause) {
    throw listenError(host, wanted, cause);
  }
  const address = server.address();
  if (typeof address === "object" && address !== null) port = address.port;
  return {
    port,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function serve(
  simulator: Simulator,
  port: number,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.on("close", () => {
    if (!response.writableFinished) gone.abort(new Error("The client has closed its connection"));
  });
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const method = METHODS.find((name) => name === request.method) ?? "GET";
  const outgoing: OutgoingRequest = {
    method,
    url: new URL(request.url ?? "/", `http://simulator:${port}`).href,
    headers: singleHeaders(request),
    body: joined(chunks),
  };
  const answer = await simulator.handle(outgoing, gone.signal);
  response.writeHead(answer.status, { ...answer.headers });
  if (answer.headers["content-length"] === undefined) response.flushHeaders();
  for await (const chunk of answer.body) {
    if (!response.write(chunk)) await drained(response);
  }
  response.end();
}

/** Resolves when the socket takes more, or is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.on("drain", done);
    response.on("close", done);
  });
}

function singleHeaders(request: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return headers;
}
