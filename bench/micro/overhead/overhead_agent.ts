import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { IncomingResponse } from "../../../base/transport.ts";
import { cpuMicros, inTurns } from "../measure.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { createRouter, type Router } from "../../../router/router.ts";
import { type MemoryHandler, MemoryTransport } from "../../../router/transport/memory.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { createSimulator } from "../../../simulator/simulator.ts";

/** Options of `agentOverhead`. */
export interface AgentOverheadOptions {
  /** Tokens of each answer. */
  readonly tokens: number;
  /** Answers at the same time; at least 2. */
  readonly answers: number;
  readonly rounds: number;
}

/** CPU time per token in µs. */
export interface AgentOverhead {
  readonly engine: "vllm" | "sglang";
  /** Reading the engine's bytes, and nothing else. */
  readonly bare: number;
  /** From the engine's bytes to the output log of an agent, whose text its successor reads. */
  readonly panel: number;
  /** The same for the root, and on to a client that reads a chat stream. */
  readonly root: number;
}

/**
 * Measures what a token of an agent costs the router. The engines are instant: each repeats, event by event, an
 * answer that a simulated engine has given before.
 */
export async function agentOverhead(
  engine: AgentOverhead["engine"],
  options: AgentOverheadOptions,
): Promise<AgentOverhead> {
  const { tokens, answers, rounds } = options;
  const handler = instantEngine(engine);
  const transport = new MemoryTransport(() => handler);
  const router = await makeRouter(engine, transport, options);
  const perToken = async (work: () => Promise<unknown>) => await cpuMicros(work) / (tokens * answers);
  const all = (one: () => Promise<void>) => Promise.all(Array.from({ length: answers }, one));
  const { signal } = new AbortController();
  try {
    // The answer that all others repeat.
    await ask(router, "root");
    const figures = await inTurns(rounds, {
      bare: () =>
        perToken(() => all(async () => await drain((await transport.send(ANY_REQUEST, signal)).body))),
      panel: () => perToken(() => ask(router, "panel")),
      root: () => perToken(() => all(() => ask(router, "root"))),
    });
    return { engine, ...figures };
  } finally {
    await router.close();
  }
}

const ANY_REQUEST = { method: "POST", url: "http://engine/repeat", headers: {} } as const;

/** A simulated engine of which each answer after the first one is the first one's bytes again, event by event. */
function instantEngine(engine: AgentOverhead["engine"]): MemoryHandler {
  const clock = new SystemClock();
  const simulator = createSimulator({ engine, models: ["engine"], cost: "instant", clock, seed: "bench" });
  let answer: Promise<readonly Uint8Array[]> | undefined;
  return async (request, signal) => {
    if (request.method !== "POST") return await simulator.handle(request, signal);
    answer ??= simulator.handle(request, signal).then(({ body }) => Array.fromAsync(body));
    return { status: 200, headers: { "content-type": "text/event-stream" }, body: oneByOne(await answer) };
  };
}

/** Each chunk one turn of the microtask queue away. */
async function* oneByOne(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array, void, void> {
  for (const chunk of chunks) {
    await Promise.resolve();
    yield chunk;
  }
}

async function makeRouter(
  engine: AgentOverhead["engine"],
  transport: MemoryTransport,
  { tokens, answers }: AgentOverheadOptions,
): Promise<Router> {
  const agent = { model: "m", prompt: "ask" };
  const config = configSchema.parse({
    server: { max_running: answers, max_queued: answers },
    models: {
      m: { model: "engine", engine, workers: ["http://engine"], tokenizer: "own", max_in_flight: 100_000 },
    },
    prompts: { ask: "[input_prompts]", join: "[input_prompts] [responses]" },
    graphs: Object.fromEntries(
      Object.entries({
        root: [{ agents: [agent] }],
        panel: [
          { agents: Array.from({ length: answers - 1 }, () => agent) },
          { agents: [{ ...agent, prompt: "join" }] },
        ],
      }).map(([name, layers]) => [name, { layers, sampling: { max_tokens: tokens, ignore_eos: true } }]),
    ),
  });
  const router = createRouter({
    config,
    clock: new SystemClock(),
    random: new Random("bench"),
    transport,
    loadTokenizer: () => Promise.resolve(builtinTokenizer()),
  });
  await router.ready();
  return router;
}

/** Sends a question to a graph as a client does, and reads the stream of its answer. */
async function ask(router: Router, graph: string): Promise<void> {
  const response = await router.app.request("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: graph, messages: [{ role: "user", content: "Say much." }], stream: true }),
  });
  if (!response.ok) throw new Error(`The router answered ${response.status}: ${await response.text()}`);
  const reader = response.body!.getReader();
  while (!(await reader.read()).done) { /* as fast as it comes */ }
}

async function drain(body: IncomingResponse["body"]): Promise<void> {
  for await (const _chunk of body) { /* as fast as it comes */ }
}
