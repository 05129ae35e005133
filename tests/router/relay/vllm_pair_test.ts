import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import { createEngine } from "../../../router/engines/create.ts";
import { defaultCapabilities } from "../../../router/engines/probe.ts";
import { Arrivals } from "../../../router/pool/arrivals.ts";
import { createPool } from "../../../router/pool/create_pool.ts";
import type { ManagedPool } from "../../../router/pool/pool.ts";
import { createRelay } from "../../../router/relay/relay.ts";
import type { ServedModel } from "../../../router/served/served_model.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { responseOf } from "./fake_workers.ts";
import { FakePair, pairConfig, PREFILL } from "../engines/vllm/vllm_pair.ts";

interface Bench {
  readonly clock: VirtualClock;
  readonly pair: FakePair;
  readonly pool: ManagedPool;
  readonly gone: AbortController;
  post(body: string, path?: string): Promise<Response>;
}

const COMPLETIONS = "/v1/completions";
const CHAT = "/v1/chat/completions";
const IDS = '{"model":"tiny-qwen3","prompt":[5,6,7],"stream":true,"seed":9223372036854775807, "new":[1.0]}';

/** Runs in virtual time, and checks that nothing is left behind and no rule of the pair was broken. */
function relayTest(what: string, run: (bench: Bench) => Promise<void>, version = "0.32.0"): void {
  test(`vLLM pair, relayed: ${what}`, async () => {
    const clock = new VirtualClock();
    const pair = new FakePair(clock);
    const transport = new MemoryTransport((request) =>
      request.url.startsWith(PREFILL) ? pair.prefill : pair.decode
    );
    const config = { ...pairConfig(), retries: 0 };
    const random = new Random("relay");
    const log = logger("test");
    const pool = createPool({ model: "m", config, clock, random, transport, log });
    const capabilities = { ...defaultCapabilities(config), version };
    const engine = createEngine({ config, pool, transport, clock, random, capabilities });
    const model: ServedModel = {
      name: "tiny-qwen3",
      config,
      engine,
      pool,
      membership: pool,
      tokenizer: undefined,
    };
    const relay = createRelay({ clock, random, transport, log, arrivals: new Arrivals() });
    const gone = new AbortController();
    const post = async (body: string, path = COMPLETIONS) =>
      responseOf(
        await relay.relay(model, {
          method: "POST",
          path,
          headers: { "content-type": "application/json", "x-request-id": "mine" },
          body: new TextEncoder().encode(body),
        }, gone.signal),
      );
    await clock.run(() => run({ clock, pair, pool, gone, post }));
    await clock.advance(clock.now());
    assert.deepEqual(pair.breaches, []);
    assert.deepEqual(pair.running, { prefill: 0, decode: 0 });
    assert.deepEqual(pool.workers().map(({ inFlight }) => inFlight), [0, 0]);
    assert.equal(transport.inFlight, 0, "exchanges in flight");
    assert.equal(clock.pendingTimers, 0, "timers");
  });
}

const failuresOf = (pool: ManagedPool) => pool.workers().map(({ role, failures }) => `${role} ${failures}`);

relayTest("the client's bytes go to decode, with the ids and the parameters", async ({ pair, post }) => {
  const response = await post(IDS);
  assert.equal(response.status, 200);
  assert.match(await response.text(), /data: \[DONE\]\n\n$/);
  assert.deepEqual(pair.log, ["prefill /v1/completions", "decode /v1/completions"]);
  assert.deepEqual(pair.sent.map(({ id }) => id), ["mine", "mine"]);
  const { raw } = pair.sent[1]!;
  assert.ok(raw.endsWith('"prompt":[5,6,7],"stream":true,"seed":9223372036854775807, "new":[1.0]}'), raw);
});

relayTest("a text is replaced by the ids that were prefilled", async ({ pair, post }) => {
  await (await post('{"prompt":"hé","add_special_tokens":false}')).text();
  assert.deepEqual(pair.log, ["prefill /tokenize", "prefill /v1/completions", "decode /v1/completions"]);
  assert.deepEqual(pair.sent[0]?.body, { prompt: "hé", add_special_tokens: false });
  assert.deepEqual(pair.sent[2]?.body.prompt, FakePair.tokens("hé"));
});

const CHAT_BODY = '{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function"}],"stream":true}';

relayTest("a chat stays a chat", async ({ pair, post }) => {
  await (await post(CHAT_BODY, CHAT)).text();
  assert.deepEqual(pair.log, ["prefill /tokenize", "prefill /v1/completions", "decode /v1/chat/completions"]);
  assert.ok(pair.sent[2]?.raw.endsWith(CHAT_BODY.slice(1)));
});

relayTest("before 0.28 a chat goes to the decode server alone", async ({ pair, post }) => {
  await (await post(CHAT_BODY, CHAT)).text();
  assert.deepEqual(pair.log, ["decode /v1/chat/completions"]);
  assert.equal(pair.sent[0]?.raw, CHAT_BODY);
}, "0.27.0");

relayTest("what cannot be shared goes to the decode server alone, byte for byte", async ({ pair, post }) => {
  for (
    const body of [
      '{"prompt":[5,6],"n":2,"stream":true}',
      '{"prompt":["a","b"],"stream":true}',
      '{"prompt":[[5],[6]],"stream":true}',
      '{"prompt":"a","echo":true,"stream":true}',
      '{"prompt":"a","prompt_logprobs":0}',
    ]
  ) {
    await (await post(body)).text();
    assert.deepEqual(pair.sent.splice(0).map(({ side, raw }) => [side, raw]), [["decode", body]]);
  }
});

for (const fault of [{ status: 500 }, "refuse", "reset", "reset_in_body"] as const) {
  relayTest(`a prefill that fails (${JSON.stringify(fault)}) is done without`, async (bench) => {
    const { pair, pool, post } = bench;
    pair.faults.prefill = [fault];
    assert.equal((await post(IDS)).status, 200);
    assert.equal(pair.sent.at(-1)?.raw, IDS);
    bench.gone.abort(new Error("seen enough"));
    assert.deepEqual(failuresOf(pool), ["prefill 1", "decode 0"]);
  });
}

relayTest("a prefill server that has another model is done without, and not blamed", async (bench) => {
  const { pair, pool, post } = bench;
  pair.faults.prefill = [{ status: 404, message: "The model `tiny-qwen3` does not exist." }];
  const response = await post(IDS);
  assert.equal(response.status, 200);
  await response.text();
  assert.equal(pair.sent.at(-1)?.raw, IDS);
  assert.deepEqual(failuresOf(pool), ["prefill 0", "decode 0"]);
});

relayTest("a model that neither server has is a 404 of decode", async ({ pair, pool, post }) => {
  pair.faults.prefill = [{ status: 404 }];
  pair.faults.decode = [{ status: 404, message: "no adapter of that name" }];
  const response = await post(IDS);
  assert.equal(response.status, 404);
  assert.match(await response.text(), /no adapter of that name/);
  assert.deepEqual(failuresOf(pool), ["prefill 0", "decode 0"]);
});

for (const status of [400, 422, 429, 503]) {
  relayTest(`${status} of prefill is the answer as it is`, async ({ pair, pool, post }) => {
    pair.faults.prefill = [{ status, message: "too hot" }];
    const response = await post(IDS);
    assert.equal(response.status, status);
    assert.deepEqual(await response.json(), { error: { message: "too hot", param: "temperature" } });
    assert.deepEqual(pair.log, ["prefill /v1/completions"]);
    assert.deepEqual(failuresOf(pool), ["prefill 0", "decode 0"]);
  });
}

relayTest(
  "a decode server that cannot fetch the cache reads the prompt itself",
  async ({ pair, pool, post }) => {
    pair.faults.decode = [{ status: 500 }];
    const response = await post(IDS);
    assert.equal(response.status, 200);
    await response.text();
    assert.equal(pair.sent.at(-1)?.raw, IDS);
    assert.equal(pair.sent.length, 3);
    assert.deepEqual(failuresOf(pool), ["prefill 0", "decode 0"]);
  },
);

relayTest("a decode server that is lost has failed", async ({ pair, pool, post }) => {
  pair.faults.decode = ["reset"];
  assert.equal((await post(IDS)).status, 502);
  assert.deepEqual(failuresOf(pool), ["prefill 0", "decode 1"]);
});

relayTest("a prefill that hangs uses up the time for a first token", async ({ clock, pair, post }) => {
  pair.faults.prefill = ["hang"];
  const response = await post(IDS);
  assert.equal(response.status, 504);
  assert.equal(clock.now(), 600_000);
});

for (const afterMs of [20, 53, 60, 80]) {
  relayTest(`a client that goes after ${afterMs} ms leaves nothing running`, async (bench) => {
    const { clock, pair, gone, post } = bench;
    const reading = post(IDS).then((response) => response.text());
    reading.catch(() => {});
    await clock.sleep(afterMs);
    gone.abort(new Error("gone"));
    await assert.rejects(reading, /gone/);
    assert.deepEqual(pair.running, { prefill: 0, decode: 0 });
    assert.equal(clock.now(), afterMs);
  });
}

relayTest("a body without a prompt is the decode server's to refuse", async ({ pair, post }) => {
  pair.faults.decode = [{ status: 400, message: "no prompt" }];
  const response = await post('{"model":"tiny-qwen3"}');
  assert.equal(response.status, 400);
  assert.match(await response.text(), /no prompt/);
  assert.deepEqual(pair.log, ["decode /v1/completions"]);
});
