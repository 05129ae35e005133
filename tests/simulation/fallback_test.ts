import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "../../cfgs/schema/config.ts";
import { byModel } from "../../router/http/metrics/by_model.ts";
import type { Router } from "../../router/router.ts";
import { ask, eventsOf, makeWarmWorld } from "./warm_world.ts";
import type { World } from "./world.ts";

const graphs = {
  moa: {
    layers: [{ agents: [{ model: "4b" }, { model: "4b" }] }, { agents: [{ model: "32b" }] }],
    sampling: { max_tokens: 40, temperature: 0 },
  },
};
/** Health checks have found every worker that does not answer. */
const FOUND_MS = 60_000;

/** Runs `use` with a router whose 32b falls back on 8b, and that on 4b, in virtual time. */
async function inWorld(use: (router: Router, world: World) => Promise<void>): Promise<void> {
  const world = makeWarmWorld({ seed: "fallback", replicas: 1, graphs });
  const { config } = world;
  await world.clock.run(async () => {
    const router = world.router();
    try {
      await router.ready();
      const models = {
        ...config.models,
        "32b": { ...config.models["32b"], fallback: ["8b"] },
        "8b": { ...config.models["8b"], fallback: ["4b"] },
      };
      router.reconfigure(configSchema.parse({ ...config, models }));
      await use(router, world);
    } finally {
      await router.close();
    }
  }, { limitMs: 3_600_000 });
}

function crash({ workers }: World, ...models: readonly string[]): void {
  for (const { model, simulator } of workers) if (models.includes(model)) simulator.crash();
}

async function post(router: Router, path: string, body: object): Promise<Response> {
  return await router.app.request(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

const chat = (router: Router, more: object = {}) =>
  post(router, "/v1/chat/completions", {
    model: "32b",
    messages: [{ role: "user", content: "Why?" }],
    max_tokens: 8,
    ...more,
  });

const by = ({ status, headers }: Response) => [status, headers.get("x-canopy-fallback")];

test("a request whose model cannot answer goes to the next one in its place, which is told to the client", async () => {
  await inWorld(async (router, world) => {
    const own = await chat(router);
    assert.deepEqual(by(own), [200, null]);
    await own.text();
    crash(world, "32b");
    const answer = await chat(router);
    assert.deepEqual(by(answer), [200, "8b"]);
    assert.equal((await answer.json()).model, "32b");
    await world.clock.sleep(FOUND_MS);
    const stream = await chat(router, { stream: true });
    assert.deepEqual(by(stream), [200, "8b"]);
    assert.match(await stream.text(), /\[DONE\]\n\n$/);
    const native = await post(router, "/generate", { model: "32b", text: "Why?" });
    assert.deepEqual(by(native), [200, "8b"]);
    assert.equal((await router.app.request("/readiness")).status, 200);
    const metrics = await (await router.app.request("/metrics")).text();
    assert.match(metrics, /canopy_fallbacks_total\{model="32b",to="8b",reason="failed"\} 1\n/);
    assert.match(metrics, /canopy_fallbacks_total\{model="32b",to="8b",reason="no_worker"\} 2\n/);

    crash(world, "8b");
    await world.clock.sleep(FOUND_MS);
    assert.deepEqual(by(await chat(router)), [200, "4b"]);
    // vLLM has no such route.
    assert.deepEqual(by(await post(router, "/generate", { model: "32b", text: "Why?" })), [503, null]);
    crash(world, "4b");
    await world.clock.sleep(FOUND_MS);
    assert.equal((await chat(router)).status, 503);
    assert.equal((await router.app.request("/readiness")).status, 503);
  });
});

test("a worker that is full sends a request on, one that blames the request does not", async () => {
  await inWorld(async (router, { workers }) => {
    const { simulator } = workers.find(({ model }) => model === "32b")!;
    assert.deepEqual(by(await post(router, "/v1/completions", { model: "32b", prompt: ["a", ""] })), [
      400,
      null,
    ]);
    simulator.inject({ kind: "status_503", count: Infinity });
    assert.deepEqual(by(await chat(router)), [200, "8b"]);
    simulator.clearFaults();
    assert.deepEqual(by(await chat(router)), [200, null]);
    const metrics = await (await router.app.request("/metrics")).text();
    assert.match(metrics, /canopy_fallbacks_total\{model="32b",to="8b",reason="full"\} 1\n/);
  });
});

test("an agent whose model cannot answer is written by another one, with a prompt of that one's own", async () => {
  await inWorld(async (router, world) => {
    crash(world, "32b");
    for (const reason of ["failed", "no_worker"]) {
      const record = await ask(router, "moa", "Why?");
      assert.equal(record.state, "done");
      const root = record.agents.at(-1)!;
      assert.deepEqual([root.model, root.fallback], ["32b", { model: "8b", reason }]);
      assert.ok(root.text.length > 0);
      assert.match(root.worker ?? "", /^8b\./);
      assert.equal(root.usage?.model, "8b");
      assert.equal(eventsOf(record, "agent_fell_back", root.id).length, 1);
      assert.ok(
        record.agents.slice(0, -1).every(({ fallback, state }) => fallback === undefined && state === "done"),
      );
      await world.clock.sleep(FOUND_MS);
    }
    const answer = await chat(router, { model: "moa", canopy: { include: ["usage"] } });
    const { canopy: { usage } } = await answer.json();
    assert.deepEqual(usage.models.map(({ model }: { model: string }) => model), ["4b", "8b"]);
    assert.equal(usage.degraded, undefined);
    const shown = await (await router.app.request(`/v1/runs/${answer.headers.get("x-canopy-run-id")}`))
      .json();
    assert.deepEqual(shown.agents.at(-1).fallback, { model: "8b", reason: "no_worker" });
    const metrics = await (await router.app.request("/metrics")).text();
    assert.match(metrics, /canopy_fallbacks_total\{model="32b",to="8b",reason="no_worker"\} 1\n/);
    crash(world, "8b", "4b");
    await world.clock.sleep(FOUND_MS);
    assert.equal((await chat(router, { model: "moa" })).status, 503);
  });
});

test("what an agent's own model has read ahead stays its work when another one writes in its place", async () => {
  await inWorld(async (router, world) => {
    const asked = ask(router, "moa", "Why?");
    // The root's model has read ahead by then, and has not said anything yet.
    await world.clock.sleep(35);
    crash(world, "32b");
    const { agents, events, usage } = await asked;
    const root = agents.at(-1)!;
    assert.deepEqual([root.state, root.fallback?.model, root.usage?.model], ["done", "8b", "8b"]);
    assert.ok(events.some(({ type, agent }) => type === "warm_done" && agent === root.id));
    const models = byModel(usage.parts);
    const [own, other] = [models.get("32b")!, models.get("8b")!];
    assert.ok(own.warmTokens > 0, `${own.warmTokens}`);
    assert.deepEqual([own.completionTokens, other.warmTokens, other.splicedTokens], [0, 0, 0]);
    assert.equal(root.usage?.warmTokens, own.warmTokens);
    assert.equal(root.usage?.completionTokens, other.completionTokens);
  });
});
