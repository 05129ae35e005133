import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { Fleet } from "../../../router/served/fleet.ts";
import { createModels } from "../../../router/served/models.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { createSimulator } from "../../../simulator/simulator.ts";

test("a worker that has joined, at once or later, leaves nothing that waits for the fleet's end", async () => {
  const clock = new VirtualClock();
  const server = createSimulator({ engine: "vllm", models: ["sim"], cost: "instant", clock, seed: "x" });
  let isThere = true;
  const transport = new MemoryTransport(() => isThere ? server.handle : undefined);
  const config = configSchema.parse({ fleet: { workers: [] } });
  await clock.run(async () => {
    const models = createModels({ config, clock, random: new Random("fleet"), transport });
    const fleet = new Fleet({ config: config.fleet!, clock, transport, models });
    const [life, poolLife] = [new AbortController(), new AbortController()];
    await models.start(poolLife.signal);
    const waiting: (AbortSignal | undefined)[] = [];
    const { signal } = life;
    const listen = signal.addEventListener.bind(signal);
    signal.addEventListener = (...of: Parameters<typeof listen>) => {
      const [, , options] = of;
      waiting.push(typeof options === "object" ? options.signal : undefined);
      listen(...of);
    };
    await fleet.start(signal);
    await fleet.add({ url: "http://a.sim" });
    isThere = false;
    assert.equal(await fleet.add({ url: "http://b.sim" }), undefined);
    assert.deepEqual(waiting.map((end) => end?.aborted), [true, false]);
    isThere = true;
    await clock.sleep(60_000);
    assert.deepEqual(fleet.pending, []);
    assert.deepEqual(waiting.map((end) => end?.aborted), [true, true]);
    life.abort();
    poolLife.abort();
  });
});
