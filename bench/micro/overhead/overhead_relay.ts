import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { IncomingResponse, Transport } from "../../../base/transport.ts";
import { cpuMicros, inTurns } from "../measure.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { createRouter, type Router } from "../../../router/router.ts";

/** CPU time per chunk in µs. */
export interface RelayOverhead {
  /** Handing each chunk from the worker's iterator to a stream: the least that any proxy of this shape does. */
  readonly bare: number;
  readonly vllm: number;
  readonly sglang: number;
  /** With the model's name replaced in every event. */
  readonly renamed: number;
}

/**
 * Measures what a relayed chunk costs on its whole way through the HTTP app, against a bare pass-through of the same
 * bytes in the same process and run. Workers are in memory, so that only the router's own work is measured, not sockets.
 */
export async function relayOverhead(
  options: { streams: number; chunks: number; rounds: number },
): Promise<RelayOverhead> {
  const { streams, chunks, rounds } = options;
  const perChunk = (open: () => Response | Promise<Response>) => async () => {
    const all = () => Promise.all(Array.from({ length: streams }, async () => await read(await open())));
    return await cpuMicros(all) / (streams * (chunks + 1));
  };
  const routers = await Promise.all([
    routed("vllm", "4b", chunks),
    routed("sglang", "4b", chunks),
    routed("vllm", "org/engine-4b", chunks),
  ]);
  const [vllm, sglang, renamed] = routers;
  try {
    return await inTurns(rounds, {
      bare: perChunk(() => bare(chunks)),
      vllm: perChunk(() => ask(vllm)),
      sglang: perChunk(() => ask(sglang)),
      renamed: perChunk(() => ask(renamed)),
    });
  } finally {
    await Promise.all(routers.map((router) => router.close()));
  }
}

async function read(response: Response): Promise<void> {
  const reader = response.body?.getReader();
  while (reader !== undefined && !(await reader.read()).done) { /* as fast as it comes */ }
}

const encoder = new TextEncoder();
const chunk = encoder.encode(
  `data: ${
    JSON.stringify({
      id: "chatcmpl-0123456789abcdef",
      object: "chat.completion.chunk",
      created: 1_700_000_000,
      model: "org/engine-4b",
      choices: [{ index: 0, delta: { content: " token" }, logprobs: null, finish_reason: null }],
    })
  }\n\n`,
);
const done = encoder.encode("data: [DONE]\n\n");

/** A worker that always has the next chunk, one turn of the microtask queue away. */
async function* source(chunks: number): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < chunks; i++) {
    await Promise.resolve();
    yield chunk;
  }
  yield done;
}

function instantWorker(chunks: number): Transport {
  return {
    send: ({ method }): Promise<IncomingResponse> =>
      Promise.resolve({
        status: method === "POST" ? 200 : 404,
        headers: { "content-type": "text/event-stream" },
        body: source(method === "POST" ? chunks : 0),
      }),
    close: () => Promise.resolve(),
  };
}

/** The least that any proxy of this shape does: hand each chunk from the worker's iterator to a stream. */
function bare(chunks: number): Response {
  const body = source(chunks);
  return new Response(
    new ReadableStream<Uint8Array>({
      async pull(controller) {
        const { done, value } = await body.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
    }, { highWaterMark: 0 }),
  );
}

/** A router with one worker whose name for its model is the public one (nothing to rename), or another. */
async function routed(engine: "vllm" | "sglang", model: string, chunks: number): Promise<Router> {
  const server = { max_running: 100_000 };
  const workers = ["http://worker"];
  const router = createRouter({
    config: configSchema.parse({
      server,
      models: { "4b": { model, engine, workers, max_in_flight: 100_000 } },
    }),
    clock: new SystemClock(),
    random: new Random("bench"),
    transport: instantWorker(chunks),
  });
  await router.ready();
  return router;
}

/** Sends a request through the whole HTTP app, as a client does. */
async function ask({ app }: Router): Promise<Response> {
  const response = await app.fetch(
    new Request("http://localhost/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"model":"4b","stream":true,"messages":[{"role":"user","content":"Say hello."}]}',
    }),
  );
  if (!response.ok) throw new Error(`The router answered ${response.status}: ${await response.text()}`);
  return response;
}
