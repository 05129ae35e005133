import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../properties.ts";
import { engineTotals, makeWorld, tree931 } from "./world.ts";

const runs = often(100);

test(`${runs} concurrent 9-3-1 runs make 13 calls each, every token is counted once, and nothing is left`, async () => {
  // So few that most requests wait in the models' queues.
  const model = { max_in_flight: 20 };
  // Without warms, which engines count as requests and prompts, too.
  const graphs = { moa: { ...tree931(12), incremental_prefill: "off" } };
  const world = makeWorld({ seed: "load", replicas: 4, graphs, model });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    const requestsBefore = engineTotals(world.workers).requests;
    const answers = await Promise.all(Array.from({ length: runs }, async (_, index) => {
      const response = await router.app.request("/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model: "moa",
          messages: [{ role: "user", content: `Question ${index}: what is ${index} plus one?` }],
          canopy: { include: ["usage"] },
        }),
      });
      assert.equal(response.status, 200);
      return await response.json() as {
        usage: { prompt_tokens: number; completion_tokens: number };
        choices: { finish_reason: string }[];
        canopy: { usage: { calls: number } };
      };
    }));
    const totals = engineTotals(world.workers);
    const sum = (of: (answer: typeof answers[number]) => number) =>
      answers.reduce((all, one) => all + of(one), 0);
    assert.equal(totals.requests - requestsBefore, 13 * runs);
    assert.ok(answers.every((answer) => answer.canopy.usage.calls === 13));
    assert.equal(sum((answer) => answer.usage.prompt_tokens), totals.promptTokens);
    assert.equal(sum((answer) => answer.usage.completion_tokens), totals.generationTokens);
    assert.equal(totals.running, 0);
    for (const model of router.services.models.values()) {
      for (const worker of model.pool.workers()) assert.equal(worker.inFlight, 0);
    }
    await router.close();
    assert.equal(world.transport.inFlight, 0);
  });
  await world.clock.advance(world.clock.now() + 60_000);
  assert.equal(world.clock.pendingTimers, 0);
});
