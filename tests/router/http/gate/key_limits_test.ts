import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock, VirtualClock } from "../../../../base/clock.ts";
import { Random } from "../../../../base/random.ts";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import type { KeyStore, StoreEntry, StoreLimits } from "../../../../router/replicas/key_store.ts";
import { Metrics } from "../../../../router/http/metrics/metrics.ts";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { createRouter } from "../../../../router/router.ts";
import { MemoryTransport } from "../../../../router/transport/memory.ts";
import { fakeApp } from "../fakes.ts";

const models = {
  small: { model: "org/small", engine: "vllm" },
  big: { model: "org/big", engine: "vllm" },
};

const GUARDED = { api_keys: ["sk-plain", "sk-other"], admin_key: "boss" };

/** An app with these limits, asked by holders of keys. */
function limited(limits: object, server: object = GUARDED, keyStore?: KeyStore) {
  const clock = new VirtualClock();
  const metrics = new Metrics(clock);
  const app = { metrics, keyStore };
  const made = fakeApp({ clock, config: { models, server: { ...server, limits } }, app });
  const ask = (key: string, model = "small", options: object = {}) =>
    made.chat({ model, ...options }, { headers: key === "" ? {} : { authorization: `Bearer ${key}` } });
  return { ...made, clock, metrics, ask };
}

test("a key begins as many requests in a minute as it may; the next is a 429 that says which limit, and when to come again", async () => {
  const { ask, clock, metrics, relay } = limited({
    default: { requests_per_minute: 2 },
    keys: { alice: { api_key: "sk-alice", requests_per_minute: 3 } },
  });
  await clock.run(async () => {
    for (const left of ["2", "1", "0"]) {
      const { status, headers } = await ask("sk-alice");
      assert.equal(status, 200);
      assert.equal(headers.get("x-ratelimit-limit-requests"), "3");
      assert.equal(headers.get("x-ratelimit-remaining-requests"), left);
      assert.match(headers.get("x-ratelimit-reset-requests") ?? "", /^1m1s$/);
      assert.equal(headers.get("x-ratelimit-limit-tokens"), null);
    }
    await clock.sleep(20_000);
    const refused = await ask("sk-alice");
    assert.equal(refused.status, 429);
    const { error } = errorSchema.parse(await refused.json());
    assert.equal(error.code, "rate_limit_exceeded");
    assert.equal(
      error.message,
      "The limit of the API key alice is reached: 3 requests per minute; try again in 41s",
    );
    const told = ["retry-after", "retry-after-ms", "x-ratelimit-remaining-requests"];
    assert.deepEqual(told.map((name) => refused.headers.get(name)), ["41", "41000", "0"]);
    assert.equal(relay.requests.length, 3);
    await clock.sleep(41_000);
    assert.equal((await ask("sk-alice")).status, 200);
    // Other keys have their own count, and the admin none.
    for (const status of [200, 200, 429]) assert.equal((await ask("sk-plain")).status, status);
    assert.equal((await ask("sk-other")).status, 200);
    for (let i = 0; i < 4; i++) {
      const { status, headers } = await ask("boss");
      assert.deepEqual([status, headers.get("x-ratelimit-limit-requests")], [200, null]);
    }
    assert.equal((await ask("sk-wrong")).status, 401);
  });
  const refusals = JSON.stringify(metrics.values().refusals);
  assert.match(refusals, /alice/);
  assert.doesNotMatch(refusals, /sk-/);
});

test("a run's tokens count for its key when it has ended, all agents together; over the limit nothing more begins for a minute", async () => {
  const { ask, clock } = limited({ keys: { alice: { api_key: "sk-alice", tokens_per_minute: 200 } } });
  await clock.run(async () => {
    // Each fake run takes 120 tokens.
    for (let i = 0; i < 2; i++) {
      const answer = await ask("sk-alice", "moa");
      assert.deepEqual([answer.status, answer.headers.get("x-ratelimit-limit-tokens")], [200, "200"]);
      await answer.text();
    }
    const refused = await ask("sk-alice", "moa");
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("x-ratelimit-remaining-tokens"), "0");
    assert.match(
      errorSchema.parse(await refused.json()).error.message,
      /200 tokens per minute; try again in 1m1s$/,
    );
    await clock.sleep(61_000);
    assert.equal((await ask("sk-alice", "moa", { stream: true })).status, 200);
  });
});

test("requests at once are counted until their last byte was taken; a limit of default is lifted by false", async () => {
  const { ask, clock, relay } = limited({
    default: { max_concurrent: 1 },
    keys: { free: { api_key: "sk-free", max_concurrent: false } },
  });
  relay.answer = () => new Response(new ReadableStream({ start: (body) => body.enqueue(new Uint8Array(1)) }));
  await clock.run(async () => {
    const first = await ask("sk-plain");
    const refused = await ask("sk-plain");
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("retry-after"), "1");
    assert.match(
      errorSchema.parse(await refused.json()).error.message,
      /^The limit of the API key [0-9a-f]{8} is reached: 1 request at once; try again when one of them has ended$/,
    );
    await first.body?.cancel();
    const open = [await ask("sk-plain"), await ask("sk-free"), await ask("sk-free")];
    for (const { status } of open) assert.equal(status, 200);
    for (const { body } of open) await body?.cancel();
  });
});

test("without API keys the default limits all callers together; a key that stands only under limits is asked for", async () => {
  const { ask, clock } = limited({ default: { requests_per_minute: 1 } }, {});
  await clock.run(async () => {
    assert.equal((await ask("")).status, 200);
    const refused = await ask("whatever");
    assert.match(errorSchema.parse(await refused.json()).error.message, /^The limit of all callers together/);
    const other = limited({ keys: { alice: { api_key: "sk-alice" } } }, {});
    assert.equal((await other.ask("")).status, 401);
    assert.equal((await other.ask("sk-alice")).status, 200);
  });
});

test("an admin key has no limits where there are no API keys", async () => {
  const { ask, clock } = limited({ default: { requests_per_minute: 1 } }, { admin_key: "boss" });
  await clock.run(async () => {
    for (let i = 0; i < 3; i++) assert.equal((await ask("boss")).status, 200);
    for (const [key, status] of [["", 200], ["", 429], ["sk-any", 429], ["boss", 200]] as const) {
      assert.equal((await ask(key)).status, status);
    }
  });
});

test("another configuration takes new limits, and what was used stays used", async () => {
  const configured = (requests: number) =>
    configSchema.parse({
      models: { m: { model: "m", engine: "openai", tokenizer: false } },
      server: { limits: { keys: { alice: { api_key: "sk-alice", requests_per_minute: requests } } } },
    });
  const router = createRouter({
    config: configured(2),
    clock: new SystemClock(),
    random: new Random("limits"),
    transport: new MemoryTransport(() => undefined),
  });
  const ask = async () => {
    const headers = { authorization: "Bearer sk-alice" };
    const asked = { method: "POST", headers, body: '{"model":"none","messages":[]}' };
    return (await router.app.request("/v1/chat/completions", asked)).status;
  };
  try {
    assert.deepEqual([await ask(), await ask(), await ask()], [404, 404, 429]);
    router.reconfigure(configured(3));
    assert.deepEqual([await ask(), await ask()], [404, 429]);
  } finally {
    await router.close();
  }
});

/** A store that says this of whoever asks. */
class FakeStore implements KeyStore {
  isHere = true;
  replicas = 3;
  said: Partial<StoreEntry> | undefined = {};
  readonly asked: StoreLimits[] = [];
  readonly spent: number[] = [];
  left = 0;

  enter(_: string, limits: StoreLimits): Promise<StoreEntry | undefined> {
    this.asked.push(limits);
    const entry: StoreEntry = {
      outcome: "ok",
      nowMs: 100_000,
      requests: [{ second: 70, count: 4 }],
      tokens: [{ second: 90, count: 30 }],
      leave: () => void this.left++,
    };
    return Promise.resolve(this.said && { ...entry, ...this.said });
  }

  spend(_: string, tokens: number): void {
    this.spent.push(tokens);
  }
}

test("with a store it decides: what all replicas have used is what headers and refusals say", async () => {
  const store = new FakeStore();
  const limits = { default: { requests_per_minute: 5, tokens_per_minute: 200 } };
  const { ask, clock } = limited(limits, GUARDED, store);
  const told = ({ headers }: Response) =>
    ["remaining-requests", "reset-requests", "remaining-tokens"].map((name) =>
      headers.get(`x-ratelimit-${name}`)
    );
  await clock.run(async () => {
    const answer = await ask("sk-plain", "moa");
    assert.deepEqual([answer.status, ...told(answer)], [200, "1", "31s", "170"]);
    await answer.text();
    assert.deepEqual([store.spent, store.left], [[120], 1]);
    assert.deepEqual(store.asked, [{ requestsPerMinute: 5, tokensPerMinute: 200, maxConcurrent: undefined }]);
    store.said = { outcome: "requests", requests: [{ second: 70, count: 5 }] };
    const refused = await ask("sk-plain", "moa");
    assert.equal(refused.status, 429);
    assert.match(
      errorSchema.parse(await refused.json()).error.message,
      /: 5 requests per minute; try again in 31s$/,
    );
    assert.deepEqual(told(refused), ["0", "31s", "170"]);
    store.said = { outcome: "tokens", tokens: [{ second: 90, count: 200 }] };
    const { error } = errorSchema.parse(await (await ask("sk-plain", "moa")).json());
    assert.match(error.message, /: 200 tokens per minute; try again in 51s$/);
    assert.equal(store.left, 1, "who was refused has nothing to leave");
  });
});

test("while the store is away each replica has its part of each limit, counted from what it let in before", async () => {
  const store = new FakeStore();
  const { ask, clock } = limited({ default: { requests_per_minute: 9 } }, GUARDED, store);
  await clock.run(async () => {
    assert.equal((await ask("sk-plain")).status, 200);
    // It does not answer in the middle of a request, then is known to be away.
    store.said = undefined;
    const cut = await ask("sk-plain");
    assert.deepEqual([cut.status, cut.headers.get("x-ratelimit-remaining-requests")], [200, "7"]);
    store.isHere = false;
    assert.equal((await ask("sk-plain")).status, 200);
    const refused = await ask("sk-plain");
    assert.equal(refused.status, 429);
    assert.match(errorSchema.parse(await refused.json()).error.message, /: 3 requests per minute; try again/);
    assert.equal(store.asked.length, 2);
    store.isHere = true;
    store.said = {};
    assert.equal((await ask("sk-plain")).status, 200);
  });
});
