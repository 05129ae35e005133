import { Buffer } from "node:buffer";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SystemClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import "../loopback.ts";
import { HANG_MS } from "../until.ts";
import { residentMb, startProgram } from "./program.ts";
import { rawRequest, SMUGGLED_PATH } from "./raw_requests.ts";

const clock = new SystemClock();

/** Connections at a time. */
const AT_ONCE = 16;
/** Requests after which the router's memory is taken for what it needs. */
const WARM_UP = 0.3;
const MAX_GROWTH_MB = 64;

/** Options of `fuzzRouter`. */
export interface ClientFuzz {
  readonly requests: number;
  readonly seed: string;
  readonly onCase?: ((count: number) => void) | undefined;
}

/** Figures of a run, and what went wrong. */
export interface FuzzReport {
  readonly wrong: readonly string[];
  /** Answers by their status; 0 for connections that were closed without one. */
  readonly statuses: ReadonlyMap<number, number>;
  readonly memoryMb: readonly [before: number | undefined, after: number | undefined];
}

/** A worker whose answers are short; what reached it is in `paths`. */
async function startTinyWorker(paths: Set<string>): Promise<{ url: string; close: () => void }> {
  const server = createServer(
    { maxHeaderSize: 1 << 20 },
    (request, response) => void answer(request, response, paths),
  );
  server.on("clientError", (error, socket) => {
    // A connection that the router gave up is none.
    if (/parse|HPE_/i.test(`${error}`)) paths.add(`not HTTP: ${error}`);
    socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the worker has no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function answer(request: IncomingMessage, response: ServerResponse, paths: Set<string>): Promise<void> {
  const path = (request.url ?? "").split("?")[0] ?? "";
  if (paths.size < 1_000) paths.add(path);
  try {
    for await (const _chunk of request);
  } catch {
    return;
  }
  const streams = request.headers.accept === "text/event-stream";
  const body = path === "/v1/models"
    ? '{"object":"list","data":[{"id":"m"},{"id":"p"}]}'
    : '{"id":"1","object":"text_completion","choices":[{"index":0,"text":"ok","finish_reason":"stop"}],"text":"ok"}';
  response.writeHead(200, { "content-type": streams ? "text/event-stream" : "application/json" });
  response.end(body);
}

/**
 * Sends so many requests, most of them malformed, over sockets to a router in a process of its own, before a whole
 * server and a pair. None may be answered with a 5xx of the router's own making, or not at all; nothing that a client
 * hides in a request may reach a worker as a request; the router must live, answer others, and not grow.
 */
export async function fuzzRouter({ requests, seed, onCase }: ClientFuzz): Promise<FuzzReport> {
  const paths = new Set<string>();
  const worker = await startTinyWorker(paths);
  const folder = mkdtempSync(join(tmpdir(), "canopy-fuzz-"));
  writeFileSync(
    join(folder, "canopy.json"),
    JSON.stringify({
      models: {
        m: { model: "m", engine: "openai", workers: [worker.url], tokenizer: false },
        p: {
          model: "p",
          engine: "sglang-pd",
          workers: [{
            prefill: worker.url,
            bootstrap_port: 1,
            decode: worker.url.replace("127.0.0.1", "localhost"),
          }],
          tokenizer: false,
        },
      },
    }),
  );
  const router = await startProgram(["serve", "canopy.json", "--port", "0"], folder);
  const statuses = new Map<number, number>();
  const wrong: string[] = [];
  const random = new Random(seed);
  let ended = false;
  router.ended.then(() => ended = true);
  let sent = 0;
  let before: number | undefined;
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (sent < requests && wrong.length < 10 && !ended) {
        const bytes = rawRequest(random);
        sent++;
        if (sent >= requests * WARM_UP) before ??= residentMb(router.pid);
        const status = await statusOf(router.url, bytes).catch((error) => `${error}`);
        onCase?.(sent);
        if (typeof status === "string") {
          wrong.push(`${status} for ${JSON.stringify(bytes.toString("latin1").slice(0, 1_000))}`);
        } else statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (sent % 500 === 0) await checkOthers(router.url, wrong);
      }
    }));
    if (wrong.length > 0) wrong.push(`the router said:\n${router.output().slice(-4_000)}`);
    if (ended) wrong.push(`the router has ended:\n${router.output()}`);
    const after = residentMb(router.pid);
    if (after !== undefined && before !== undefined && after > before + MAX_GROWTH_MB) {
      wrong.push(`the router has grown from ${before} to ${after} MB`);
    }
    for (const path of paths) {
      if (path.includes(SMUGGLED_PATH) || path.startsWith("not HTTP")) {
        wrong.push(`a worker was asked for ${path}`);
      }
    }
    return { wrong, statuses, memoryMb: [before, after] };
  } finally {
    await router.stop();
    worker.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** An ordinary client beside it is served. */
async function checkOthers(url: string, wrong: string[]): Promise<void> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"model":"m","prompt":"Hi"}',
  });
  const text = await response.text();
  if (response.status !== 200 || !text.includes('"ok"')) {
    wrong.push(`another client got ${response.status} ${text}`);
  }
}

/** Sends bytes, says that no more come, and reads what comes: the worst status; 0 when there was none. */
function statusOf(url: string, bytes: Buffer): Promise<number> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: hostname, port: Number(port) });
    let text = "";
    const cancel = clock.timer(HANG_MS, () => {
      reject(new Error(`neither an answer nor an end within ${HANG_MS / 1_000} s`));
      socket.destroy();
    });
    const end = () => {
      cancel();
      const found = [...text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map(([, status]) => Number(status));
      const bad = found.find((status) => status >= 500 && status !== 501 && status !== 505);
      if (bad !== undefined) return reject(new Error(text.slice(0, 1_000)));
      resolve(Math.max(0, ...found));
    };
    socket.on("connect", () => socket.end(bytes));
    socket.on("data", (data) => {
      if (text.length < 64 * 1024) text += Buffer.from(data).toString("latin1");
    });
    // A reset is a way to refuse, too.
    socket.on("error", () => {});
    socket.on("close", end);
  });
}

/** The figures in one line. */
export function describeFuzz({ statuses, memoryMb: [before, after] }: FuzzReport): string {
  const counts = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) =>
    `${status === 0 ? "closed" : status}: ${count}`
  );
  return `${counts.join(", ")}; router's memory ${before ?? "?"} -> ${after ?? "?"} MB`;
}
