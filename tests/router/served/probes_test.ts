import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { createRouter } from "../../../router/router.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { createSimulator } from "../../../simulator/simulator.ts";

test("workers that join a fleet together are each asked once what they can do", async () => {
  const clock = new VirtualClock();
  const names = ["a", "b", "c"];
  const servers = new Map(names.map((name) => [
    `${name}.sim`,
    createSimulator({ engine: "vllm", models: ["sim"], cost: "instant", clock, seed: name }),
  ]));
  const asked = new Map<string, number>();
  const transport = new MemoryTransport((request) => {
    const { hostname, pathname } = new URL(request.url);
    const server = servers.get(hostname);
    if (server === undefined) return undefined;
    return async (outgoing, signal) => {
      if (pathname === "/version") {
        asked.set(hostname, (asked.get(hostname) ?? 0) + 1);
        // Slow enough for all to join meanwhile.
        await clock.sleep(500, signal);
      }
      return await server.handle(outgoing, signal);
    };
  });
  const config = configSchema.parse({
    fleet: { workers: names.map((name) => ({ url: `http://${name}.sim` })) },
  });
  await clock.run(async () => {
    const router = createRouter({ config, clock, random: new Random("probes"), transport });
    await router.ready();
    await clock.sleep(3_000);
    assert.equal(router.services.models.get("sim")?.engine.capabilities.version, "0.32.0");
    assert.deepEqual(Object.fromEntries(asked), { "a.sim": 1, "b.sim": 1, "c.sim": 1 });
    await router.close();
  });
});
