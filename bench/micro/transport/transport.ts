/**
 * What a request to a worker and a chunk of its answer cost beside the runtime's `fetch`, over loopback, in one run:
 *
 *     deno task bench:transport
 */
import { spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { systemTransport } from "../../../router/transport/system.ts";
import { cpuMicros, inTurns } from "../measure.ts";

const STREAMS = 64;
const ROUNDS = 5;
/** Chunks in each stream of the server. */
const CHUNKS = 200;

const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "y".repeat(800) }] });
const HEADERS = { "content-type": "application/json", "x-request-id": "abc" };
const transport = systemTransport();

async function overSockets(url: string): Promise<void> {
  const signal = new AbortController().signal;
  const response = await transport.send({ method: "POST", url, headers: HEADERS, body }, signal);
  for await (const _chunk of response.body);
}

async function overFetch(url: string): Promise<void> {
  const signal = new AbortController().signal;
  const response = await fetch(url, { method: "POST", headers: HEADERS, body, signal });
  const reader = response.body!.getReader();
  while (!(await reader.read()).done);
}

/** CPU µs of one request, 64 at a time. */
function each(send: (url: string) => Promise<void>, url: string, requests: number): () => Promise<number> {
  return async () => {
    let left = requests;
    const work = async () => {
      while (left-- > 0) await send(url);
    };
    return await cpuMicros(() => Promise.all(Array.from({ length: STREAMS }, work))) / requests;
  };
}

const script = fileURLToPath(new URL("server.ts", import.meta.url));
const run = process.versions.bun === undefined ? ["run", "-A", "--no-check", script] : [script];
const server = spawn(process.execPath, run, { stdio: ["pipe", "pipe", "inherit"] });
const port = await new Promise<string>((resolve) =>
  server.stdout.once("data", (data) => resolve(String(data).trim()))
);
const url = `http://127.0.0.1:${port}`;

process.stdout.write("CPU µs; medians of rounds taken in turns\n");
for (
  const [name, path, requests, chunks] of [
    ["a request with a small answer", "/small", 5_000, 1],
    ["a chunk of 64 paced streams", "/paced", 128, CHUNKS],
    ["a chunk of streams in bulk", "/bulk", 256, CHUNKS],
  ] as const
) {
  const cost = await inTurns(ROUNDS, {
    fetch: each(overFetch, `${url}${path}`, requests),
    sockets: each(overSockets, `${url}${path}`, requests),
  });
  const figures = [cost.fetch / chunks, cost.sockets / chunks].map((us) => us.toFixed(2).padStart(8));
  const ratio = (cost.sockets / cost.fetch).toFixed(2);
  process.stdout.write(`${name.padEnd(32)} fetch ${figures[0]}  sockets ${figures[1]}  ${ratio}×\n`);
}
await transport.close();
server.stdin.end();
