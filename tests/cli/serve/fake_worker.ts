import { createServer, type IncomingHttpHeaders } from "node:http";
import { createServer as createTlsServer } from "node:https";

/** A request that a fake worker got. */
export interface SeenRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

/** A server that answers as SGLang does, and keeps what it was asked. */
export interface FakeWorker {
  readonly url: string;
  readonly seen: readonly SeenRequest[];
  close(): Promise<void>;
}

/** Options of `startFakeWorker`. */
export interface FakeWorkerOptions {
  /** The bearer token that it wants for all but its probes. */
  readonly key?: string;
  /** Status of answers to generations. */
  readonly status?: number;
  /** Options of an HTTPS server. */
  readonly tls?: Parameters<typeof createTlsServer>[0];
}

/** Starts a fake SGLang server with the model `org/a` on the loopback. */
export async function startFakeWorker(options: FakeWorkerOptions = {}): Promise<FakeWorker> {
  const seen: SeenRequest[] = [];
  const { key, status = 200, tls } = options;
  const listener: Parameters<typeof createServer>[1] = (request, response) => {
    const path = request.url ?? "";
    seen.push({ path, headers: request.headers });
    request.resume();
    const answer = (code: number, body: unknown) => {
      response.writeHead(code, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (path === "/health") return answer(200, {});
    if (key !== undefined && request.headers.authorization !== `Bearer ${key}`) {
      return answer(401, { error: "Unauthorized" });
    }
    if (path === "/v1/models") return answer(200, { data: [{ id: "org/a", owned_by: "sglang" }] });
    if (path === "/v1/chat/completions") {
      const message = { role: "assistant", content: "Hello" };
      return answer(status, { model: "org/a", choices: [{ index: 0, message, finish_reason: "stop" }] });
    }
    answer(404, { detail: "Not Found" });
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `${tls === undefined ? "http" : "https"}://${tls === undefined ? "127.0.0.1" : "localhost"}:${port}`,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

/** Fake workers while `use` runs. */
export async function withFakeWorkers(
  each: readonly FakeWorkerOptions[],
  use: (workers: FakeWorker[]) => Promise<void>,
): Promise<void> {
  const workers = await Promise.all(each.map(startFakeWorker));
  try {
    await use(workers);
  } finally {
    await Promise.all(workers.map((worker) => worker.close()));
  }
}
