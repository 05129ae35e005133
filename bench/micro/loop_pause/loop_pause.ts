/**
 * The longest pause of the router's event loop under each kind of large input, over loopback; the engines and the
 * client are in a thread of their own:
 *
 *     deno task bench:loop-pause [PART OF A NAME] [FOLDER]
 *
 * FOLDER has a model's tokenizer; by default the fixture's.
 */
import process from "node:process";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { EmbeddedServer } from "../../../embedded/http/server.ts";
import type { Generator } from "../../../embedded/scheduler/generator.ts";
import { loadTokenizer } from "../../../ml/tokenizers/hf_tokenizer.ts";
import { createRouter, type Router } from "../../../router/router.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { SocketTransport } from "../../../router/transport/sockets.ts";
import { LARGE_INPUTS } from "./inputs.ts";
import { type Others, startOthers } from "./others.ts";
import { longestPause } from "./pause.ts";

const ONLY = process.argv[2] ?? "";
const FOLDER = process.argv[3] ??
  fileURLToPath(new URL("../../../tests/fixtures/tiny-qwen3", import.meta.url));
const CONTEXT = 40_960;
const WIDE_CONTEXT = 4_000_000;
const MEGA = 1_000_000;

const clock = new SystemClock();

async function makeRouter({ good, sglang, mad }: Others["engines"]): Promise<Router> {
  const model = { model: "m", engine: "vllm", tokenizer: FOLDER, context_tokens: CONTEXT };
  const tree = (leaf: string, others = "m") => ({
    layers: [{ agents: [{ model: leaf }, { model: others }] }, { agents: [{ model: others }] }],
    sampling: { max_tokens: 16 },
    incremental_prefill: { mode: "on" },
  });
  const config = configSchema.parse({
    models: {
      m: { ...model, workers: [good] },
      mad: { ...model, workers: [mad] },
      s: { ...model, model: "s", engine: "sglang", workers: [sglang] },
      wide: { ...model, context_tokens: WIDE_CONTEXT, workers: [good] },
    },
    graphs: { moa: tree("m"), "mad-moa": tree("mad"), "wide-moa": tree("wide", "wide") },
  });
  const transport = new SocketTransport();
  const router = await createRouter({ config, clock, random: new Random("pause"), transport });
  await router.ready();
  return router;
}

/** A generator that says one word. */
function shortAnswers(vocabSize: number): Generator {
  return {
    facts: {
      model: "m",
      file: "",
      vocabSize,
      maxContextTokens: CONTEXT,
      threads: 1,
      fallbacks: [],
      arithmetic: { cpu: "any", products: "none" },
    },
    counts: () => ({
      running: 0,
      waiting: 0,
      cachedTokens: 0,
      cacheCapacityTokens: 0,
      promptTokens: 0,
      promptTokensCached: 0,
      generatedTokens: 0,
    }),
    async *generate() {
      await Promise.resolve();
      yield { type: "prompt", cachedTokens: 0 };
      yield { type: "token", token: { id: 39, logprob: undefined, top: [] } };
      yield { type: "end", reason: "length" };
    },
    close: () => Promise.resolve(),
  };
}

async function embedded(): Promise<EmbeddedServer> {
  const tokenizer = await loadTokenizer(FOLDER, {
    transport: new MemoryTransport(() => undefined),
    signal: new AbortController().signal,
    clock,
  });
  return new EmbeddedServer({
    model: "m",
    generator: shortAnswers(tokenizer.vocabSize),
    tokenizer,
    endIds: [0],
    clock,
    random: new Random("embedded"),
  });
}

async function measure(name: string, send: () => Promise<string>): Promise<number> {
  let outcome = "";
  const { wallMs, cpuMs } = await longestPause(clock, async () => void (outcome = await send()));
  const cpu = cpuMs === undefined ? "-" : cpuMs.toFixed(1);
  process.stdout.write(`${name.padEnd(30)}${cpu.padStart(9)}${wallMs.toFixed(1).padStart(9)}  ${outcome}\n`);
  return cpuMs ?? wallMs;
}

const others = await startOthers();
const router = await makeRouter(others.engines);
const { url } = await router.listen({ host: "127.0.0.1", port: 0 });
const chosen = LARGE_INPUTS.map(({ name }, at) => ({ name, at })).filter(({ name }) => name.includes(ONLY));
// What starts with the first long text is not the text's.
for (let warmUp = 0; warmUp < 5; warmUp++) await others.send(1, url);
process.stdout.write(`${"input".padEnd(30)}${"CPU ms".padStart(9)}${"wall ms".padStart(9)}  outcome\n`);
const pauses: number[] = [];
for (const { name, at } of chosen) pauses.push(await measure(name, () => others.send(at, url)));
const server = await embedded();
const user = (content: string) => [{ role: "user", content }];
const conversations = [
  ["words, 5,000 KB", user("word ".repeat(MEGA))],
  ["blanks, 400 KB", user(" ".repeat(400_000))],
  ["messages, 2,048", Array.from({ length: 2048 }, () => user("hi")).flat()],
] as const;
for (const [name, messages] of conversations) {
  const title = `embedded: ${name}`;
  if (!title.includes(ONLY)) continue;
  const body = JSON.stringify({ model: "m", messages });
  const request = {
    method: "POST",
    url: "http://m/v1/chat/completions",
    headers: { "content-type": "application/json" },
    body,
  } as const;
  pauses.push(
    await measure(
      title,
      async () => String((await server.handle(request, new AbortController().signal)).status),
    ),
  );
}
process.stdout.write(`${"longest".padEnd(30)}${Math.max(...pauses).toFixed(1).padStart(9)}\n`);
await router.close();
others.close();
process.exit(0);
