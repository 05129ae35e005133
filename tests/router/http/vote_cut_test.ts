import assert from "node:assert/strict";
import { test } from "node:test";
import { services } from "../moa/fake_scorer.ts";
import { engineTotals, makeWorld } from "../../simulation/world.ts";
import { runSchema } from "../../../router/http/runs/response_schema.ts";

/** Two of three say the same at once; the third one, of a larger model, would write long. */
const ANSWERS = {
  "4b": "The answer is 7.\nThat is all.",
  "8b": "The answer is 7.\nThat is all.",
  "32b": `Let me see. ${"There is a lot to say about this. ".repeat(40)}The answer is 8.`,
};

test("an agent whose vote cannot matter is idle on its engine, and the cut is in the record, the usage and the metrics", async () => {
  const agents = [{ model: "4b" }, { model: "8b" }, { model: "32b" }];
  const world = makeWorld({
    seed: "cut",
    replicas: 1,
    graphs: {
      moa: {
        sampling: { max_tokens: 900 },
        layers: [{ agents }, { agents: [{ model: "8b" }] }],
        early_exit: { scope: "run", consensus: { agree: 4, cut: "decided" } },
      },
    },
    answersOf: (size) => ({ answer: () => ({ text: ANSWERS[size], doubt: 1 }) }),
    earlyExit: () => services({ policyOf: () => undefined }),
  });
  await world.clock.run(async () => {
    const { app, close } = world.router();
    const body = {
      model: "moa",
      messages: [{ role: "user", content: "How many?" }],
      canopy: { include: ["usage"] },
    };
    const response = await app.request("/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
    });
    const { canopy, choices } = await response.json();
    assert.equal(choices[0].message.content, ANSWERS["8b"]);
    const record = await (await app.request(`/v1/runs/${canopy.run_id}`)).json();
    runSchema.parse(record);
    const [cut, ...others] = record.cuts;
    assert.deepEqual([cut.agent, cut.cluster, others], ["l1.c1.a3", "l1.c1", []]);
    assert.ok(cut.at_ms > 0 && cut.saved_tokens >= 0);
    assert.equal(record.agents[2].state, "cancelled");
    assert.ok(canopy.usage.wasted_tokens > 0);
    const metrics = await (await app.request("/metrics")).text();
    assert.match(metrics, /^canopy_agents_cut_total\{graph="moa",model="32b"\} 1$/m);
    await close();
    const { running, aborted } = engineTotals(world.workers);
    assert.equal(running, 0);
    assert.ok(aborted > 0);
  });
});
