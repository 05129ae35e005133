import assert from "node:assert/strict";
import { test } from "node:test";
import { type Config, configSchema } from "../../cfgs/schema/config.ts";
import type { Router } from "../../router/router.ts";
import { ask, makeWarmWorld } from "./warm_world.ts";
import type { World } from "./world.ts";

const graphs = {
  moa: {
    layers: [{ agents: [{ model: "4b" }] }, { agents: [{ model: "32b" }] }],
    sampling: { max_tokens: 200 },
  },
};

/** Runs `use` with a router of two workers of each size, in virtual time. */
async function inWorld(
  use: (router: Router, world: World) => Promise<void>,
  more: { server?: Record<string, unknown> } = {},
): Promise<void> {
  const world = makeWarmWorld({ seed: "reload", replicas: 2, graphs, ...more });
  await world.clock.run(async () => {
    const router = world.router();
    try {
      await router.ready();
      await use(router, world);
    } finally {
      await router.close();
    }
  }, { limitMs: 3_600_000 });
}

/** A configuration like that of the world, with other settings of the size 32b, of the server, or other graphs. */
function changed(
  { config }: World,
  more: { big?: Record<string, unknown>; server?: Record<string, unknown>; graphs?: Record<string, unknown> },
): Config {
  return configSchema.parse({
    ...config,
    server: { ...config.server, ...more.server },
    models: { ...config.models, "32b": { ...config.models["32b"], ...more.big } },
    graphs: more.graphs ?? config.graphs,
  });
}

function complete(router: Router, key?: string, maxTokens = 300): Promise<Response> {
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const body = { model: "32b", prompt: "Hello", max_tokens: maxTokens, temperature: 0, stream: true };
  const asked = router.app.request("/v1/completions", {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  return Promise.resolve(asked);
}

/** What a stream says, without what differs from answer to answer. */
async function textOf(answer: Response): Promise<string> {
  return [...(await answer.text()).matchAll(/"text":"((?:[^"\\]|\\.)*)"|\[DONE\]/g)].map(([all, text]) =>
    text ?? all
  )
    .join("");
}

test("a stream lives on when a reload removes its worker, which gets nothing new", async () => {
  await inWorld(async (router, world) => {
    const whole = await textOf(await complete(router));
    const streaming = await complete(router);
    const { pool } = router.services.models.get("32b")!;
    await world.clock.sleep(500);
    const busy = pool.workers().find(({ inFlight }) => inFlight === 1)!;
    const kept = world.workers.find(({ model, url }) => model === "32b" && url !== busy.url)!;
    router.reconfigure(changed(world, { big: { workers: [kept.url] } }));
    assert.deepEqual(pool.workers().map(({ url }) => url), [kept.url]);
    const others = await Promise.all([complete(router, undefined, 2), complete(router, undefined, 2)]);
    for (const other of others) assert.match(await textOf(other), /\[DONE\]$/);
    assert.equal(world.workers.find(({ url }) => url === busy.url)!.simulator.running, 1, "the stream alone");
    assert.equal(await textOf(streaming), whole);
  });
});

test("a worker that a reload adds is not used before its first check", async () => {
  await inWorld(async (router, world) => {
    const [first, second] = world.workers.filter(({ model }) => model === "32b");
    router.reconfigure(changed(world, { big: { workers: [first!.url] } }));
    const workers = [first!.url, "http://nobody.sim", second!.url];
    router.reconfigure(changed(world, { big: { workers, policy: "round_robin" } }));
    const { pool } = router.services.models.get("32b")!;
    const before = pool.workers()[0]!.served;
    const answers = await Promise.all(Array.from({ length: 6 }, () => complete(router, undefined, 1)));
    for (const answer of answers) assert.equal(answer.status, 200);
    for (const answer of answers) await answer.text();
    assert.equal(pool.workers()[0]!.served - before, 6);
    await world.clock.sleep(5_000);
    for (const answer of [await complete(router, undefined, 1), await complete(router, undefined, 1)]) {
      await answer.text();
    }
    assert.deepEqual(pool.workers().map(({ url, health }) => [url, health]), [
      [first!.url, "healthy"],
      ["http://nobody.sim", "unhealthy"],
      [second!.url, "healthy"],
    ]);
    assert.ok(pool.workers()[2]!.served > 0, "the one that is well is used");
  });
});

test("where all workers are replaced, what waits and what comes goes to the new ones", async () => {
  await inWorld(async (router, world) => {
    const [first, second] = world.workers.filter(({ model }) => model === "32b");
    router.reconfigure(changed(world, { big: { workers: [first!.url], max_in_flight: 1 } }));
    const streaming = complete(router);
    await world.clock.sleep(500);
    const waiting = complete(router, undefined, 1);
    await world.clock.sleep(100);
    assert.equal(router.services.models.get("32b")!.pool.gate.waiting, 1);
    router.reconfigure(changed(world, { big: { workers: [second!.url], max_in_flight: 1 } }));
    assert.match(await textOf(await waiting), /\[DONE\]$/);
    assert.match(await textOf(await streaming), /\[DONE\]$/);
  });
});

test("a run keeps the graph and the models with which it began, new ones get the new graph", async () => {
  await inWorld(async (router, world) => {
    const running = ask(router, "moa", "Why?");
    await world.clock.sleep(200);
    const next = changed(world, {
      graphs: {
        moa: { layers: [{ agents: [{ model: "8b" }] }], sampling: { max_tokens: 5 } },
        small: graphs.moa,
      },
    });
    const { "32b": _gone, ...models } = next.models;
    router.reconfigure({ ...next, models, graphs: { moa: next.graphs.moa! } });
    assert.equal((await complete(router)).status, 404);
    assert.deepEqual((await ask(router, "moa", "Why?")).agents.map(({ model }) => model), ["8b"]);
    const record = await running;
    assert.equal(record.state, "done");
    assert.deepEqual(record.agents.map(({ model }) => model), ["4b", "32b"]);
  });
});

test("keys change for new requests; the stream of an old key goes on", async () => {
  await inWorld(async (router, world) => {
    const streaming = await complete(router, "old");
    router.reconfigure(changed(world, { server: { api_keys: ["new"] } }));
    assert.equal((await complete(router, "old", 1)).status, 401);
    assert.equal((await complete(router, "new", 1)).status, 200);
    assert.match(await textOf(streaming), /\[DONE\]$/);
  }, { server: { api_keys: ["old"] } });
});

test("more places go to those who wait for one", async () => {
  await inWorld(async (router, world) => {
    const streaming = complete(router);
    await world.clock.sleep(300);
    const waiting = complete(router, undefined, 1);
    await world.clock.sleep(300);
    assert.match(await (await router.app.request("/metrics")).text(), /canopy_requests_queued 1/);
    router.reconfigure(changed(world, { server: { max_running: 2 } }));
    const beganMs = world.clock.now();
    assert.match(await textOf(await waiting), /\[DONE\]$/);
    assert.ok(world.clock.now() - beganMs < 1_000, "it need not wait for the first");
    assert.match(await textOf(await streaming), /\[DONE\]$/);
  }, { server: { max_running: 1 } });
});

test("a model's limits, policy and health checks change while it is served; its breakers stay as they are", async () => {
  await inWorld(async (router, world) => {
    const { pool } = router.services.models.get("32b")!;
    const { id } = pool.workers()[0]!;
    const big = { max_in_flight: 1, policy: "round_robin", health: { interval_ms: 60_000, failures: 1 } };
    router.reconfigure(changed(world, { big }));
    assert.equal(pool, router.services.models.get("32b")!.pool, "the model goes on");
    assert.equal(pool.workers()[0]!.id, id);
    const streams = [complete(router), complete(router), complete(router)];
    await world.clock.sleep(500);
    assert.equal(pool.gate.waiting, 1);
    assert.deepEqual(pool.workers().map(({ inFlight }) => inFlight), [1, 1]);
    router.reconfigure(changed(world, { big: { ...big, max_in_flight: 2 } }));
    assert.equal(pool.gate.waiting, 0, "the new limit lets it in");
    for (const stream of streams) assert.match(await textOf(await stream), /\[DONE\]$/);
  });
});

test("a configuration that cannot be used changes nothing", async () => {
  await inWorld(async (router, world) => {
    const bad = changed(world, {
      server: { api_keys: ["k"] },
      graphs: { moa: { layers: [{ agents: [{ model: "no" }] }] } },
    });
    assert.throws(() => router.reconfigure(bad), /which is not one of the models/);
    const pair = changed(world, { big: { workers: [{ prefill: "http://a.sim", decode: "http://b.sim" }] } });
    assert.throws(() => router.reconfigure(pair), /engine sglang needs single servers/);
    assert.equal((await complete(router, undefined, 1)).status, 200);
    assert.equal((await ask(router, "moa", "Why?")).state, "done");
  });
});
