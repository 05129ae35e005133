import { type Clock, SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { Transport } from "../../../base/transport.ts";
import { cpuMicros, inTurns } from "../measure.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { createRouter, type Router } from "../../../router/router.ts";
import { systemTransport } from "../../../router/transport/system.ts";
import { SseParser } from "../../../router/wire/sse.ts";
import { type ListeningSimulator, startSimulator } from "../../../simulator/serve.ts";

/** A tree through the router, and its 13 requests sent to the same engines by a plain script. */
export interface TreeOverhead {
  /** Medians in ms, from the question to the end of the answer, engines included. */
  readonly directMs: number;
  readonly routerMs: number;
  /** CPU time of the whole process in ms per tree, engines included. */
  readonly directCpuMs: number;
  readonly routerCpuMs: number;
}

const SIZES = ["4b", "8b", "32b"] as const;
const QUESTION = "What is 17 * 23? Show the steps.";

/**
 * Measures what the router adds to a 9-3-1 tree over engines that take no time, all over loopback sockets and in one
 * process. Both sides ask for streams and read the same answers in the same order of dependency.
 */
export async function treeOverhead(options: { tokens: number; rounds: number }): Promise<TreeOverhead> {
  const { tokens, rounds } = options;
  const clock = new SystemClock();
  const transport = systemTransport();
  const servers = await Promise.all(
    SIZES.map((size) =>
      startSimulator({
        engine: "vllm",
        models: [size],
        cost: "instant",
        clock,
        seed: "bench",
        host: "127.0.0.1",
        port: 0,
      })
    ),
  );
  const { router, url } = await startRouter(servers, tokens, transport, clock);
  try {
    const direct = () => directTree(servers, tokens, transport);
    const routed = () => answerOf(transport, `${url}/v1/chat/completions`, "moa", QUESTION, tokens);
    const timed = async (work: () => Promise<unknown>) => {
      const startedMs = clock.now();
      await work();
      return clock.now() - startedMs;
    };
    return await inTurns(rounds, {
      directMs: () => timed(direct),
      routerMs: () => timed(routed),
      directCpuMs: async () => await cpuMicros(direct) / 1000,
      routerCpuMs: async () => await cpuMicros(routed) / 1000,
    });
  } finally {
    await router.close();
    await Promise.all(servers.map((server) => server.close()));
    await transport.close();
  }
}

async function startRouter(
  servers: readonly ListeningSimulator[],
  tokens: number,
  transport: Transport,
  clock: Clock,
): Promise<{ router: Router; url: string }> {
  const agents = SIZES.map((model) => ({ model }));
  const config = configSchema.parse({
    models: Object.fromEntries(SIZES.map((size, index) => [size, {
      model: size,
      engine: "vllm",
      workers: [servers[index]?.url],
    }])),
    graphs: {
      moa: {
        sampling: { max_tokens: tokens, ignore_eos: true },
        // The script sends no warms either.
        incremental_prefill: "off",
        layers: [
          { clusters: 3, agents, prompt: "ask" },
          { agents, prompt: "join" },
          { agents: [{ model: "32b" }], prompt: "join" },
        ],
      },
    },
    prompts: { ask: "[input_prompts]", join: "[input_prompts]\n[responses]" },
  });
  const router = createRouter({ config, clock, random: new Random("bench"), transport });
  await router.ready();
  return { router, url: (await router.listen({ host: "127.0.0.1", port: 0 })).url };
}

/** The same 13 requests, sent by hand. */
async function directTree(
  servers: readonly ListeningSimulator[],
  tokens: number,
  transport: Transport,
): Promise<string> {
  const ask = (model: number, text: string) =>
    answerOf(transport, `${servers[model]?.url}/v1/chat/completions`, SIZES[model] ?? "", text, tokens);
  const join = (answers: readonly string[]) =>
    `${QUESTION}\n${answers.map((answer, index) => `${index + 1}. ${answer.trim()}`).join("\n\n")}`;
  const aggregated = SIZES.map(async (_, successor) => {
    const proposed = await Promise.all(SIZES.map((_, model) => ask(model, QUESTION)));
    return await ask(successor, join(proposed));
  });
  return await ask(2, join(await Promise.all(aggregated)));
}

/** Asks for a stream and gives its whole text. */
async function answerOf(
  transport: Transport,
  url: string,
  model: string,
  content: string,
  tokens: number,
): Promise<string> {
  const response = await transport.send({
    method: "POST",
    url,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model,
      messages: [{ role: "user", content }],
      max_tokens: tokens,
      ignore_eos: true,
      stream: true,
    }),
  }, new AbortController().signal);
  const parser = new SseParser();
  let text = "";
  for await (const chunk of response.body) {
    for (const data of parser.push(chunk)) {
      if (data === "[DONE]") continue;
      const event = JSON.parse(data) as { choices?: { delta?: { content?: string } }[] };
      text += event.choices?.[0]?.delta?.content ?? "";
    }
  }
  if (text === "") throw new Error(`${url} answered ${response.status} without text`);
  return text;
}
