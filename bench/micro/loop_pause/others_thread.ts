import { createServer } from "node:http";
import { parentPort } from "node:worker_threads";
import { joined } from "../../../base/bytes.ts";
import { SystemClock } from "../../../base/clock.ts";
import { SocketTransport } from "../../../router/transport/sockets.ts";
import { sseEvent } from "../../../router/wire/sse.ts";
import { startSimulator } from "../../../simulator/serve.ts";
import { LARGE_INPUTS } from "./inputs.ts";
import type { FromOthers, ToOthers } from "./others.ts";

// The thread that `others.ts` starts: engines and a client of the router under measurement.

/** Its escapes take a parser longer than words do. */
const ANSWER = "answer\n".repeat(1_500_000);
const clock = new SystemClock();
const say = (message: FromOthers) => parentPort?.postMessage(message);

const good = await startSimulator({ engine: "vllm", models: ["m"], cost: "instant", clock, seed: "pause" });
const sglang = await startSimulator({
  engine: "sglang",
  models: ["s"],
  cost: "instant",
  clock,
  seed: "pause",
});
const transport = new SocketTransport();
const { signal } = new AbortController();

async function ask(url: string, body?: Uint8Array): Promise<{ status: number; type: string; text: string }> {
  const request = { method: body === undefined ? "GET" : "POST", url, body } as const;
  const headers = { "content-type": "application/json" };
  const answer = await transport.send({ ...request, headers }, signal);
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body) chunks.push(chunk);
  const text = new TextDecoder().decode(joined(chunks));
  return { status: answer.status, type: answer.headers["content-type"] ?? "", text };
}

/** An engine that says all in one event. */
const mad = createServer((request, response) => {
  if (request.url?.endsWith("completions") !== true) {
    ask(good.url + request.url).then(({ status, type, text }) => {
      response.writeHead(status, { "content-type": type });
      response.end(text);
    });
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(sseEvent({ choices: [{ index: 0, text: ANSWER, finish_reason: null }] }));
  response.write(sseEvent({ choices: [{ index: 0, text: "", finish_reason: "stop" }] }));
  response.end("data: [DONE]\n\n");
});
mad.listen(0, "127.0.0.1", () => {
  const address = mad.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  say({ kind: "engines", good: good.url, sglang: sglang.url, mad: `http://127.0.0.1:${port}` });
});

parentPort?.on("message", async ({ input, url }: ToOthers) => {
  const { path, body } = LARGE_INPUTS[input]!;
  const bytes = new TextEncoder().encode(JSON.stringify(body()));
  const { status, text } = await ask(url + path, bytes);
  const said = () => JSON.parse(text).error?.message ?? text;
  say({ kind: "answered", outcome: status === 200 ? "200" : `${status} ${said()}`.slice(0, 110) });
});
