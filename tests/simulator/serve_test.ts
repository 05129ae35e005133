import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { test } from "node:test";
import { SystemClock } from "../../base/clock.ts";
import type { Json } from "../../base/json.ts";
import { type ListeningSimulator, startSimulator } from "../../simulator/serve.ts";
import type { SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { ask, at, eventsOf, ids, simulated } from "./recordings.ts";

const OPTIONS = { models: ["tiny-qwen3"], cost: "instant", seed: "test" } as const;

async function withServer(
  options: Partial<SimulatorOptions>,
  use: (server: ListeningSimulator, clock: SystemClock) => Promise<void>,
): Promise<void> {
  const clock = new SystemClock();
  const server = await startSimulator({ ...OPTIONS, engine: "vllm", ...options, clock });
  try {
    await use(server, clock);
  } finally {
    await server.close();
  }
}

/** A request over a real socket. */
async function send(
  url: string,
  path: string,
  body: Json | undefined,
): Promise<{ status: number; body: string }> {
  const request = httpRequest(`${url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json" },
    agent: false,
  });
  request.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = await once(request, "response");
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode, body: text };
}

/** Bodies without what differs between two servers: ids, times and how tokens were merged into events. */
function plain(body: string): string {
  return body
    .replace(/"(created|\w+_ts|\w+_time|\w+_latency|decode_throughput)":[-\d.e]+/g, '"$1":0')
    .replace(/"(id)":"[^"]*"/g, '"$1":""');
}

test("Over a port a simulator gives the answers that it gives in memory", async () => {
  const chat = { messages: [{ role: "user", content: "Hello there" }], max_tokens: 40, seed: 4 };
  for (const engine of ["vllm", "sglang"] as const) {
    await withServer({ engine }, async ({ url }) => {
      const { simulator, run } = simulated({ engine });
      const native = { input_ids: ids(3, 60), sampling_params: { max_new_tokens: 20 } };
      for (
        const [path, body] of [
          ["/v1/chat/completions", chat],
          ["/v1/completions", { prompt: ids(3, 60), max_tokens: 20, logprobs: 2, model: "tiny-qwen3" }],
          ["/generate", native],
          ["/v1/completions", { prompt: [1, 2], max_tokens: 0 }],
          ["/nope", {}],
        ] as const
      ) {
        const memory = await run(() => ask(simulator, { path, body: JSON.parse(JSON.stringify(body)) }));
        const port = await send(url, path, JSON.parse(JSON.stringify(body)));
        assert.equal(port.status, memory.status);
        assert.equal(plain(port.body), plain(memory.body));
      }
      const stream = { ...chat, stream: true };
      const text = (body: string) =>
        eventsOf(body).map((event) => at(event, "choices", 0, "delta", "content") ?? "").join("");
      const memory = await run(() => ask(simulator, { path: "/v1/chat/completions", body: stream }));
      assert.equal(text((await send(url, "/v1/chat/completions", stream)).body), text(memory.body));
    });
  }
});

test("The same seed gives the same bytes, ids and times included", async () => {
  const bytes = async () => {
    const { simulator, run } = simulated({ engine: "sglang", cost: "8b" });
    return await run(() =>
      Promise.all([1, 2, 3, 4].map((n) =>
        ask(simulator, {
          path: "/generate",
          body: { input_ids: ids(n, 100 * n), sampling_params: { max_new_tokens: 30 }, stream: n % 2 === 0 },
        })
      ))
    );
  };
  assert.deepEqual(await bytes(), await bytes());
});

test("Closing the socket stops the engine", async () => {
  await withServer({ cost: "4b" }, async ({ url, simulator }, clock) => {
    const request = httpRequest(`${url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      agent: false,
    });
    request.on("error", () => {});
    request.end(JSON.stringify({ prompt: ids(1, 20), max_tokens: 20_000, ignore_eos: true, stream: true }));
    const [response] = await once(request, "response");
    response.on("error", () => {});
    await once(response, "data");
    assert.equal(simulator.running, 1);
    request.destroy();
    while (simulator.running > 0) await clock.sleep(2);
    assert.equal(simulator.stats.aborted, 1);
  });
});

test("Over a port a reset and a truncated stream break the connection", async () => {
  await withServer({}, async ({ url, simulator }) => {
    const body = { prompt: ids(1, 20), max_tokens: 50, ignore_eos: true, stream: true };
    simulator.inject({ kind: "reset", count: 1 });
    await assert.rejects(send(url, "/v1/completions", body));
    simulator.inject({ kind: "truncate", count: 1, value: 1 });
    await assert.rejects(send(url, "/v1/completions", body));
    assert.equal((await send(url, "/v1/completions", body)).status, 200);
  });
});
