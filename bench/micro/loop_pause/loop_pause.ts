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
const MEGA = 1_000_000;

const clock = new SystemClock();

async function makeRouter({ good, mad }: Others["engines"]): Promise<Router> {
  const model = { model: "m", engine: "vllm", tokenizer: FOLDER, context_tokens: CONTEXT };
  const tree = (leaf: string) => ({
    layers: [{ agents: [{ model: leaf }, { model: "m" }] }, { agents: [{ model: "m" }] }],
    sampling: { max_tokens: 16 },
    incremental_prefill: { mode: "on" },
  });
  const config = configSchema.parse({
    models: { m: { ...model, workers: [good] }, mad: { ...model, workers: [mad] } },
    graphs: { moa: tree("m"), "mad-moa": tree("mad") },
  });
  const transport = new SocketTransport();
  const router = await createRouter({ config, clock, random: new Random("pause"), transport });
  await router.ready();
  return router;
}

async function embedded(): Promise<EmbeddedServer> {
  const tokenizer = await loadTokenizer(FOLDER, {
    transport: new MemoryTransport(() => undefined),
    signal: new AbortController().signal,
    clock,
  });
  return new EmbeddedServer({
    model: "m",
    generator: {
      facts: {
        model: "m",
        file: "",
        vocabSize: tokenizer.vocabSize,
        maxContextTokens: CONTEXT,
        threads: 1,
        fallbacks: [],
      },
      counts: () => ({ running: 0, waiting: 0, promptTokens: 0, generatedTokens: 0 }),
      generate: () => {
        throw new Error("not reached");
      },
    } as never,
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
for (const [name, content] of [["words", "word ".repeat(MEGA)], ["blanks", " ".repeat(400_000)]] as const) {
  const title = `embedded: ${name}, ${Math.round(content.length / 1000)} KB`;
  if (!title.includes(ONLY)) continue;
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content }] });
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
