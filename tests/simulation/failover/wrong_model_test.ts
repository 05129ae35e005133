import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { createRouter } from "../../../router/router.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { createSimulator } from "../../../simulator/simulator.ts";

/** A router before two workers of one model; `serve` starts another process at the second one's address. */
async function withTwo(
  engine: "vllm" | "sglang",
  use: (world: {
    readonly clock: VirtualClock;
    readonly serve: (model: string) => void;
    readonly health: () => string[];
    readonly ask: () => Promise<number>;
    readonly stats: () => readonly number[];
  }) => Promise<void>,
): Promise<void> {
  const clock = new VirtualClock();
  const start = (model: string) =>
    createSimulator({ engine, models: [model], cost: "instant", clock, seed: "wrong" });
  const servers = [start("org/Right-7B"), start("org/Right-7B")];
  const transport = new MemoryTransport((request) => {
    const server = servers[new URL(request.url).hostname === "one.sim" ? 0 : 1]!;
    return (outgoing, signal) => server.handle(outgoing, signal);
  });
  const config = configSchema.parse({
    models: { m: { model: "org/Right-7B", engine, workers: ["http://one.sim", "http://two.sim"] } },
  });
  await clock.run(async () => {
    const router = createRouter({
      config,
      clock,
      random: new Random("wrong"),
      transport,
      // Reading files takes real time, in which the clock would run to its limit.
      loadTokenizer: () => Promise.reject(new Error("nobody has one")),
    });
    await router.ready();
    await clock.sleep(10);
    await use({
      clock,
      serve: (model) => {
        servers[1]!.crash();
        servers[1] = start(model);
      },
      health: () =>
        router.services.models.get("m")!.pool.workers().map((worker) =>
          `${worker.health}: ${worker.lastError}`
        ),
      ask: async () => {
        const answer = await router.app.request("/v1/completions", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 4 }),
        });
        await answer.text();
        return answer.status;
      },
      stats: () => servers.map(({ stats }) => stats.requests),
    });
    await router.close();
  }, { limitMs: 600_000 });
}

for (const engine of ["vllm", "sglang"] as const) {
  test(`${engine}: a worker that comes back with another model is out of service until it has the right one`, async () => {
    await withTwo(engine, async ({ clock, serve, health, ask, stats }) => {
      assert.deepEqual(health(), ["healthy: undefined", "healthy: undefined"]);
      serve("org/Other-7B");
      await clock.sleep(11_000);
      const [one, two] = health();
      assert.equal(one, "healthy: undefined");
      assert.match(two!, /^unhealthy: it serves "org\/Other-7B" and not "org\/Right-7B"/);
      for (let request = 0; request < 8; request++) assert.equal(await ask(), 200);
      assert.equal(stats()[1], 0, "no request goes there");

      serve("org/Right-7B");
      await clock.sleep(2_500);
      assert.deepEqual(health(), ["healthy: undefined", "healthy: undefined"]);
      for (let request = 0; request < 8; request++) assert.equal(await ask(), 200);
      assert.ok(stats()[1]! > 0, "it gets requests again");
    });
  });
}

test("SGLang answers to any name: one that differs in case or in its path alone is the same model", async () => {
  await withTwo("sglang", async ({ clock, serve, health }) => {
    serve("/models/right-7b/");
    await clock.sleep(11_000);
    assert.deepEqual(health(), ["healthy: undefined", "healthy: undefined"]);
  });
});

test("vLLM refuses each name but its own: a worker that lists another spelling is out of service", async () => {
  await withTwo("vllm", async ({ clock, serve, health, ask }) => {
    serve("/models/Right-7B");
    await clock.sleep(11_000);
    assert.match(health()[1]!, /^unhealthy: it serves "\/models\/Right-7B" and not "org\/Right-7B"/);
    for (let request = 0; request < 8; request++) assert.equal(await ask(), 200);
  });
});
