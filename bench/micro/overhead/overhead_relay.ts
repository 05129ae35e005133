import { SystemClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import type { IncomingResponse, Transport } from "../../../base/transport.ts";
import { cpuMicros, inTurns } from "../measure.ts";
import { modelSchema } from "../../../cfgs/schema/config.ts";
import { createEngine } from "../../../router/engines/create.ts";
import { defaultCapabilities } from "../../../router/engines/probe.ts";
import { Arrivals } from "../../../router/pool/arrivals.ts";
import { createPool } from "../../../router/pool/pool.ts";
import { createRelay } from "../../../router/relay/relay.ts";
import type { Relay } from "../../../router/relay/relay_types.ts";
import type { ServedModel } from "../../../router/served/served_model.ts";

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
 * Measures what the relay costs per chunk, against a bare pass-through of the same bytes in the same process and run.
 * Workers are in memory, so that only the relay's own work is measured, not sockets.
 */
export async function relayOverhead(
  options: { streams: number; chunks: number; rounds: number },
): Promise<RelayOverhead> {
  const { streams, chunks, rounds } = options;
  const perChunk = (open: () => Response | Promise<Response>) => async () => {
    const all = () => Promise.all(Array.from({ length: streams }, async () => await read(await open())));
    return await cpuMicros(all) / (streams * (chunks + 1));
  };
  return await inTurns(rounds, {
    bare: perChunk(() => bare(chunks)),
    vllm: perChunk(relayed("vllm", "4b", chunks)),
    sglang: perChunk(relayed("sglang", "4b", chunks)),
    renamed: perChunk(relayed("vllm", "org/engine-4b", chunks)),
  });
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
    send: (): Promise<IncomingResponse> =>
      Promise.resolve({
        status: 200,
        headers: { "content-type": "text/event-stream" },
        body: source(chunks),
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

/** A relay to one worker whose name for its model is the public one (nothing to rename), or another. */
function relayed(family: "vllm" | "sglang", model: string, chunks: number): () => Promise<Response> {
  const transport = instantWorker(chunks);
  const clock = new SystemClock();
  const random = new Random("bench");
  const log = logger("bench");
  const config = modelSchema.parse({
    model,
    engine: family,
    workers: ["http://worker"],
    max_in_flight: 100_000,
  });
  const pool = createPool({ model: "4b", config, clock, random, transport, log });
  const capabilities = defaultCapabilities(config);
  const engine = createEngine({ config, pool, transport, clock, random, capabilities });
  const relay: Relay = createRelay({ clock, random, transport, log, arrivals: new Arrivals() });
  const served: ServedModel = { name: "4b", config, engine, pool, membership: pool, tokenizer: undefined };
  const body = encoder.encode(
    '{"model":"4b","stream":true,"messages":[{"role":"user","content":"Say hello."}]}',
  );
  const request = { method: "POST", path: "/v1/chat/completions", headers: {}, body } as const;
  return () => relay.relay(served, request, new AbortController().signal);
}
