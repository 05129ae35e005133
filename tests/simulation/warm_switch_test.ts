import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { MemoryHandler } from "../../router/transport/memory.ts";
import { ask, eventsOf, figure, makeWarmWorld } from "./warm_world.ts";

const readerTokens = 20;

/**
 * Behind each address of the readers' model are two servers, and what stands in front of them gives every prompt to
 * the one that was not warmed.
 */
function behindBalancers() {
  const others: MemoryHandler[] = [];
  const world = makeWarmWorld({
    seed: "balancers",
    replicas: 2,
    graphs: {
      moa: {
        layers: [
          { agents: [{ model: "4b" }, { model: "8b" }], sampling: { max_tokens: 200, ignore_eos: true } },
          { agents: [{ model: "32b" }], sampling: { max_tokens: readerTokens } },
        ],
        incremental_prefill: { mode: "auto" },
      },
    },
    intercept: ({ url, body }) => {
      const [, at] = /^http:\/\/32b-([01])\.sim\/generate$/.exec(url) ?? [];
      const isPrompt = String(body).includes(`"max_new_tokens":${readerTokens}}`);
      return at === undefined || !isPrompt ? undefined : others[1 - Number(at)];
    },
  });
  for (const { simulator } of world.workers.filter(({ model }) => model === "32b")) {
    others.push((request, signal) => simulator.handle(request, signal));
  }
  return world;
}

test("Where warmed prompts are not found in the cache, a model is not warmed for a minute, and the trace has the figures", async () => {
  const world = behindBalancers();
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    const records: RunRecord[] = [];
    const askOnce = async () => {
      const record = await ask(router, "moa", `Question ${records.length} is which?`);
      assert.equal(record.state, "done");
      records.push(record);
      return eventsOf(record, "warm_off", "l2.c1.a1")[0];
    };
    const warms = (record?: RunRecord) => record === undefined ? 0 : eventsOf(record, "warm_done").length;
    let off = await askOnce();
    while (off === undefined && records.length < 20) off = await askOnce();
    assert.ok(records.slice(0, -1).every((record) => warms(record) > 0));
    assert.equal(warms(records.at(-1)), 0);
    assert.equal(off?.data?.["reason"], "warmed tokens are not found in the cache");
    assert.ok(figure(off, "cached_share") < 0.5);
    assert.equal(figure(off, "prompts"), records.length - 1);
    const usage = records.at(-1)?.usage.agents.find(({ agent }) => agent === "l2.c1.a1");
    assert.equal(usage?.warmTokens, undefined);
    await world.clock.sleep(60_000);
    assert.equal(await askOnce(), undefined, "it is tried again");
    assert.ok(warms(records.at(-1)) > 0);
    await router.close();
  }, { limitMs: 600_000 });
});
