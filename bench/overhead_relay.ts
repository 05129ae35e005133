/**
 * CPU time per chunk that the relay adds, against a bare pass-through of the same bytes in the same process and
 * run. Workers are in memory, so that only the relay's own work is measured, not sockets.
 *
 *     deno run -A bench/overhead_relay.ts [STREAMS] [CHUNKS]
 */
import process from "node:process";
import { SystemClock } from "../base/clock.ts";
import { logger } from "../base/log.ts";
import { Random } from "../base/random.ts";
import { modelSchema } from "../cfgs/schema.ts";
import { createPool } from "../router/pool/pool.ts";
import { createRelay } from "../router/proxy/relay.ts";
import type { Relay } from "../router/proxy/relay_types.ts";
import type { ServedModel } from "../router/services.ts";
import type { IncomingResponse, Transport } from "../router/transport/transport.ts";

const STREAMS = Number(process.argv[2] ?? 64);
const CHUNKS = Number(process.argv[3] ?? 2_000);
const ROUNDS = 7;

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
async function* source(): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < CHUNKS; i++) {
    await Promise.resolve();
    yield chunk;
  }
  yield done;
}

const transport: Transport = {
  send: (): Promise<IncomingResponse> =>
    Promise.resolve({ status: 200, headers: { "content-type": "text/event-stream" }, body: source() }),
  close: () => Promise.resolve(),
};

/** The least that any proxy of this shape does: hand each chunk from the worker's iterator to a stream. */
function bare(): Response {
  const body = source();
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
function relayed(engine: "vllm" | "sglang", model: string): () => Promise<Response> {
  const clock = new SystemClock();
  const random = new Random("bench");
  const log = logger("bench");
  const config = modelSchema.parse({ model, engine, workers: ["http://worker"], max_in_flight: 100_000 });
  const pool = createPool({ model: "4b", config, clock, random, transport, log });
  const relay: Relay = createRelay({ clock, random, transport, log });
  const served: ServedModel = { name: "4b", config, engine: unusedEngine, pool, tokenizer: undefined };
  const body = encoder.encode(
    '{"model":"4b","stream":true,"messages":[{"role":"user","content":"Say hello."}]}',
  );
  const request = { method: "POST", path: "/v1/chat/completions", headers: {}, body } as const;
  return () => relay.relay(served, request, new AbortController().signal);
}

const unusedEngine: ServedModel["engine"] = {
  capabilities: {
    version: undefined,
    tokenIds: false,
    returnsTokenIds: false,
    logprobs: false,
    cachedTokens: false,
    warm: "none",
    abort: "close",
    contextTokens: undefined,
    maxStopStrings: undefined,
  },
  place: () => unused(),
  warm: () => unused(),
  generate: () => unused(),
};

function unused(): never {
  throw new Error("The relay does not use the engine");
}

/** CPU microseconds (user and system) per chunk over `STREAMS` streams at once. */
async function cpuPerChunk(open: () => Response | Promise<Response>): Promise<number> {
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: STREAMS }, async () => {
    const reader = (await open()).body?.getReader();
    while (reader !== undefined && !(await reader.read()).done) { /* as fast as it comes */ }
  }));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / (STREAMS * (CHUNKS + 1));
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;
}

const variants = {
  "bare pass-through": bare,
  "relay, vllm": relayed("vllm", "4b"),
  "relay, sglang": relayed("sglang", "4b"),
  "relay, model renamed": relayed("vllm", "org/engine-4b"),
};
const results = new Map<string, number[]>();
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, open] of Object.entries(variants)) {
    const figure = await cpuPerChunk(open);
    // The first round warms the compiler up.
    if (round > 0) results.set(name, [...(results.get(name) ?? []), figure]);
  }
}
const base = median(results.get("bare pass-through") ?? []);
process.stdout.write(
  `${STREAMS} streams of ${CHUNKS} chunks (${chunk.length} bytes), median of ${ROUNDS} rounds\n`,
);
for (const [name, figures] of results) {
  const figure = median(figures);
  process.stdout.write(
    `${name.padEnd(22)} ${figure.toFixed(2).padStart(6)} CPU µs/chunk  ${(figure / base).toFixed(2)}x\n`,
  );
}
