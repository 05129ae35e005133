import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Router } from "../../router/router.ts";
import type { MemoryHandler } from "../../router/transport/memory.ts";
import { ask, eventsOf, figure, makeWarmWorld } from "./warm_world.ts";
import { engineTotals, tree931, type World, type WorldPairs } from "./world.ts";

/** How a prefix is warmed on each kind of pair. */
const kinds = [
  { name: "SGLang, fake bootstrap", engine: "sglang-pd", version: "0.5.10.post1", decodesWarms: false },
  { name: "SGLang, pair warms", engine: "sglang-pd", version: "0.5.23", decodesWarms: true },
  { name: "vLLM, the prefill side alone", engine: "vllm-pd", version: "0.32.0", decodesWarms: false },
] as const;

function pairsOf({ engine, version }: (typeof kinds)[number]): WorldPairs {
  return { engine, versions: [version] };
}

async function play(world: World, work: (router: Router) => Promise<void>): Promise<void> {
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    await work(router);
    await world.clock.sleep(2000);
    assert.equal(engineTotals(world.workers).running, 0, "an engine still works");
    assert.equal(world.fabric.stats.roomsReused, 0, "a room was used twice");
    await router.close();
    assert.equal(world.transport.inFlight, 0, "an exchange is still open");
  }, { limitMs: 600_000 });
}

const requestsAt = (world: World, role: "prefill" | "decode") =>
  engineTotals(world.workers.filter((worker) => worker.role === role)).requests;

const said = ({ agents }: RunRecord) =>
  agents.map(({ id, state, prompt, text }) => ({ id, state, prompt, text }));

for (const kind of kinds) {
  test(`Pairs (${kind.name}): warms happen, are found again and change nothing`, async () => {
    const records: RunRecord[] = [];
    for (const mode of ["off", "auto"] as const) {
      const moa = {
        ...tree931(300),
        sampling: { max_tokens: 300, ignore_eos: true },
        slots: "completion",
        incremental_prefill: { mode },
      };
      const world = makeWarmWorld({ seed: "pairs", replicas: 1, graphs: { moa }, pairs: pairsOf(kind) });
      await play(world, async (router) => {
        const record = await ask(router, "moa", "What is the sum of all numbers below one hundred?");
        assert.equal(record.state, "done");
        records.push(record);
        const warms = eventsOf(record, "warm_done").length;
        if (mode === "off") assert.equal(warms, 0);
        else assert.ok(warms > 4 * 8, `${warms} warms`);
        const calls = record.agents.length;
        assert.ok(requestsAt(world, "prefill") >= calls + warms);
        if (kind.decodesWarms) assert.ok(requestsAt(world, "decode") >= calls + warms);
        else assert.equal(requestsAt(world, "decode"), calls);
      });
    }
    const [off, auto] = records;
    assert.deepEqual(said(auto!), said(off!));
    for (const { id, usage } of auto!.agents.filter(({ id }) => !id.startsWith("l1."))) {
      const stopped = eventsOf(auto!, "warm_stopped", id)[0];
      const warmable = figure(stopped, "stable");
      assert.ok(warmable > 0.95 * usage!.promptTokens, `${id}: ${warmable} of ${usage!.promptTokens}`);
      assert.ok(usage!.cachedTokens! >= 0.9 * warmable, `${id}: ${usage!.cachedTokens} of ${warmable}`);
    }
  });
}

test(
  "A decode server that stalls does not keep its prefill server from warming",
  async () => {
    const stall: MemoryHandler = (_request, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    let stalls = 1;
    const world = makeWarmWorld({
      seed: "stall",
      replicas: 1,
      pairs: { engine: "vllm-pd" },
      intercept: ({ url }) =>
        url === "http://32b-decode-0.sim/v1/completions" && stalls-- > 0 ? stall : undefined,
      graphs: {
        stalled: { layers: [{ agents: [{ model: "32b" }] }] },
        moa: {
          layers: [{ agents: [{ model: "4b" }, { model: "8b" }] }, { agents: [{ model: "32b" }] }],
          sampling: { max_tokens: 200, ignore_eos: true },
          incremental_prefill: { mode: "auto" },
        },
      },
    });
    await play(world, async (router) => {
      const client = new AbortController();
      const stalled = ask(router, "stalled", "Who waits?", client.signal);
      await world.clock.sleep(500);
      const record = await ask(router, "moa", "Who goes on?");
      assert.equal(record.state, "done");
      const warms = eventsOf(record, "warm_done").length;
      assert.ok(
        warms > 8,
        `${warms} warms, ${JSON.stringify(record.events.filter(({ type }) => type.startsWith("warm_")))}`,
      );
      client.abort(new Error("It has waited long enough"));
      assert.equal((await stalled).state, "cancelled");
    });
  },
);
