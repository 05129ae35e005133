import assert from "node:assert/strict";
import { test } from "node:test";
import { configureSync, resetSync } from "@logtape/logtape";
import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import type { PoolShare, WorkerReport } from "../../../router/pool/pool_share.ts";
import { createRouter } from "../../../router/router.ts";
import { createModels } from "../../../router/served/models.ts";
import { ThreadCells } from "../../../router/threads/thread_cells.ts";
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

test("what the threads of a router find out about a model's workers is logged once", async () => {
  const lines: string[] = [];
  configureSync({
    reset: true,
    sinks: { test: ({ message }) => void lines.push(message.join("")) },
    loggers: [
      { category: "canopy", lowestLevel: "info", sinks: ["test"] },
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["test"] },
    ],
  });
  const clock = new VirtualClock();
  const server = createSimulator({
    engine: "sglang",
    models: ["m"],
    cost: "instant",
    clock,
    seed: "x",
    dpSize: 2,
  });
  const transport = new MemoryTransport(() => server.handle);
  const config = configSchema.parse({
    models: {
      m: { model: "m", engine: "sglang", dp_aware: true, tokenizer: "/none", workers: ["http://m.sim"] },
    },
  });
  const memory = ThreadCells.allocate(3);
  const told: WorkerReport[][] = [];
  const threads = [0, 1, 2].map((thread) => {
    const cells = new ThreadCells(memory, { thread, threads: 3, onPass: () => {} });
    let slot = 0;
    const share: PoolShare = {
      leads: thread === 0,
      thread,
      queue: cells.queue(0),
      takeSlot: () => slot++,
      leaveSlot: () => {},
      worker: (at) => cells.worker(at),
      handOffs: (prefill, decode) => cells.handOffs(prefill, decode),
      changed: (members) => void told.push([...members]),
      poke: () => {},
    };
    const loadTokenizer = () => Promise.reject(new Error("it is not there"));
    // The one that leads makes no tokens.
    const load = thread === 0 ? {} : { loadTokenizer };
    const random = new Random(`${thread}`);
    return createModels({ config, clock, random, transport, shareOf: () => share, ...load });
  });
  const life = new AbortController();
  try {
    await clock.run(async () => {
      const [leading, ...serving] = threads;
      await leading!.start(life.signal);
      for (const models of serving) {
        models.all.get("m")!.follow(told.at(-1)!);
        await models.start(life.signal);
        assert.equal(models.all.get("m")!.pool.workers().length, 2);
      }
      await clock.sleep(10);
    });
  } finally {
    life.abort();
    resetSync();
  }
  for (const what of [/speaks sglang/, /2 data-parallel ranks/, /no tokenizer.*it is not there/]) {
    assert.ok(lines.some((line) => what.test(line)), String(what));
  }
  assert.deepEqual(lines, [...new Set(lines)]);
});
