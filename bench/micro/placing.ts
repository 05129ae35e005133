/**
 * CPU time of a relayed request of 8 kB under each policy, in one process and in turns; workers answer at once, from
 * memory:
 *
 *     deno task bench:placing
 */
import process from "node:process";
import { numberAfter } from "./flags.ts";
import { cpuMicros, inTurns } from "./measure.ts";
import { SystemClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { configSchema } from "../../cfgs/schema/config.ts";
import { POLICY_NAMES, type PolicyName } from "../../cfgs/schema/policies.ts";
import { createRouter } from "../../router/router.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";

const requests = numberAfter("--requests", 2_000);
const rounds = numberAfter("--rounds", 7);

const encoder = new TextEncoder();
const answer = encoder.encode(
  '{"choices":[{"message":{"content":"Yes"}}],"usage":{"prompt_tokens":2000,"total_tokens":2001,' +
    '"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":1990}}}',
);
const headers = { "content-type": "application/json", "content-length": `${answer.length}` };
const transport = new MemoryTransport(() => () =>
  Promise.resolve({
    status: 200,
    headers,
    body: (async function* () {
      yield answer;
    })(),
  })
);

const random = new Random("placing");
const prefixes = Array.from({ length: 32 }, () => random.hex(8_192));
const bodies = Array.from({ length: 256 }, () => {
  const messages = [{ role: "system", content: random.pick(prefixes) }, {
    role: "user",
    content: random.hex(200),
  }];
  return JSON.stringify({ model: "m", messages, max_tokens: 8 });
});

async function measureOf(policy: PolicyName): Promise<() => Promise<number>> {
  const workers = ["http://a", "http://b", "http://c", "http://d"];
  const model = { model: "m", engine: "vllm", tokenizer: false, workers, policy };
  const config = configSchema.parse({ models: { m: model }, server: { log_level: "error" } });
  const router = await createRouter({
    config,
    clock: new SystemClock(),
    random: new Random(policy),
    transport,
  });
  const ask = async (at: number) => {
    const response = await router.app.request("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: bodies[at % bodies.length]!,
    });
    await response.arrayBuffer();
  };
  return async () =>
    await cpuMicros(async () => {
      for (let at = 0; at < requests; at++) await ask(at);
    }) / requests;
}

const measures = Object.fromEntries(
  await Promise.all(POLICY_NAMES.map(async (name) => [name, await measureOf(name)] as const)),
) as Record<PolicyName, () => Promise<number>>;
const figures = await inTurns(rounds, measures);
process.stdout.write(
  `A relayed request of 8 kB, four workers, CPU µs; medians of ${rounds} rounds taken in turns\n`,
);
for (const name of POLICY_NAMES) {
  const ratio = (figures[name] / figures.round_robin).toFixed(2);
  process.stdout.write(
    `${name.padEnd(20)}${figures[name].toFixed(1).padStart(8)}${`${ratio}×`.padStart(8)}\n`,
  );
}
process.exit(0);
