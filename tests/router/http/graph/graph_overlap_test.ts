import assert from "node:assert/strict";
import { test } from "node:test";
import { graphAnswerSchema } from "../../../../router/http/graph/response_schema.ts";
import { makeWarmWorld } from "../../../simulation/warm_world.ts";
import { engineTotals } from "../../../simulation/world.ts";

const INTRODUCTION = "Consider what others have said before you answer. ".repeat(60);

test("prompts of a graph in a request are prefilled while their slots are still being written, and stay the same", async () => {
  const prompts: unknown[] = [];
  const texts: unknown[] = [];
  const cached: number[] = [];
  for (const mode of [undefined, "auto", "off"]) {
    const world = makeWarmWorld({ seed: "overlap", replicas: 2, cost: "4b", graphs: {} });
    await world.clock.run(async () => {
      const router = world.router();
      await router.ready();
      const agents = {
        a: { model: "4b", prompt: "Why is the sky blue?", max_tokens: 300 },
        b: { model: "8b", messages: [{ role: "user", content: "Why is the sky blue?" }], max_tokens: 200 },
        c: {
          model: "32b",
          messages: [
            { role: "system", content: INTRODUCTION },
            { role: "user", content: "First: <|answer:a|>\nSecond: <|answer:b|>\nNow you." },
          ],
          max_tokens: 20,
        },
        d: {
          model: "8b",
          prompt: { system: INTRODUCTION, user: "[responses]" },
          reads: ["b"],
          max_tokens: 20,
        },
      };
      const response = await router.app.request("/v1/graph", {
        method: "POST",
        body: JSON.stringify({
          agents,
          sampling: { temperature: 0 },
          include: ["prompts"],
          ...(mode === undefined ? {} : { incremental_prefill: { mode } }),
        }),
      });
      assert.equal(response.status, 200);
      const graph = graphAnswerSchema.parse(await response.json());
      assert.deepEqual(graph.outputs, ["c", "d"]);
      prompts.push(Object.values(graph.agents).map((agent) => agent.prompt));
      texts.push(Object.values(graph.agents).map((agent) => agent.text));
      cached.push(graph.agents["c"]?.usage?.prompt_tokens_details?.cached_tokens ?? 0);
      await router.close();
    });
    assert.equal(engineTotals(world.workers).running, 0);
  }
  const [byDefault, auto, off] = cached;
  assert.equal(byDefault, auto);
  assert.ok(auto! > 500 && off! < 50, JSON.stringify(cached));
  for (const one of prompts) assert.deepEqual(one, prompts[0]);
  for (const one of texts) assert.deepEqual(one, texts[0]);
});
