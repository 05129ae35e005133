import assert from "node:assert/strict";
import { test } from "node:test";
import { anthropicMessageSchema } from "../../../router/http/anthropic/response_schema.ts";
import { responseSchema } from "../../../router/http/responses/response_schema.ts";
import { makeWorld, sizes } from "../../simulation/world.ts";

const layers = [{ agents: sizes.map(({ name }) => ({ model: name })) }, { agents: [{ model: "32b" }] }];
const PRICES = {
  "4b": { prompt: 1, completion: 2 },
  "8b": { prompt: 3, completion: 5, cached: 0.5 },
  "32b": { prompt: 7, completion: 11, cached: 0 },
};

/** The answer to one question, its breakdown and the metrics after it. */
async function asked(prices: Partial<typeof PRICES>) {
  const world = makeWorld({
    seed: "cost",
    replicas: 1,
    graphs: { moa: { layers, sampling: { max_tokens: 40 } } },
    models: Object.fromEntries(Object.entries(prices).map(([name, price]) => [name, { price }])),
  });
  return await world.clock.run(async () => {
    const { app, close } = world.router();
    const response = await app.request("/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify({
        model: "moa",
        messages: [{ role: "user", content: "Which way?" }],
        canopy: { include: ["usage"] },
      }),
      headers: { "content-type": "application/json" },
    });
    const body = await response.json();
    const metrics = await (await app.request("/metrics")).text();
    await close();
    return { usage: body.usage, breakdown: body.canopy.usage, metrics };
  });
}

interface Counts {
  readonly model: string;
  readonly prompt_tokens: number;
  readonly cached_tokens: number | null;
  readonly completion_tokens: number;
  readonly cost?: number;
}

test("an answer says what its run has cost, by agent and by model, and the metrics add it up", async () => {
  const { usage, breakdown, metrics } = await asked(PRICES);
  let all = 0;
  for (
    const { model, prompt_tokens, cached_tokens, completion_tokens, cost } of breakdown.models as Counts[]
  ) {
    const price: { prompt: number; completion: number; cached?: number } =
      PRICES[model as keyof typeof PRICES];
    const cached = cached_tokens ?? 0;
    const own = (prompt_tokens - cached) * price.prompt + cached * (price.cached ?? price.prompt) +
      completion_tokens * price.completion;
    assert.ok(Math.abs(own / 1e6 - (cost ?? 0)) < 1e-12, `${model}: ${cost}`);
    const counted = new RegExp(`^canopy_cost_total\\{model="${model}"\\} (\\S+)$`, "m").exec(metrics)?.[1];
    assert.ok(Math.abs(Number(counted) - own / 1e6) < 1e-12, `${counted}`);
    all += own / 1e6;
  }
  const ofAgents = (breakdown.agents as Counts[]).reduce((sum, { cost = NaN }) => sum + cost, 0);
  for (const cost of [usage.cost, breakdown.cost, ofAgents]) {
    assert.ok(Math.abs(cost - all) < 1e-12, `${cost}`);
  }
  assert.ok(all > 0);
});

test("where one model has no price the run has no cost, but the others have", async () => {
  const { usage, breakdown, metrics } = await asked({ "4b": PRICES["4b"], "32b": PRICES["32b"] });
  assert.equal(usage.cost, undefined);
  assert.equal(breakdown.cost, undefined);
  const priced = (breakdown.models as Counts[]).filter(({ cost }) => cost !== undefined).map(({ model }) =>
    model
  );
  assert.deepEqual(priced.sort(), ["32b", "4b"]);
  assert.doesNotMatch(metrics, /canopy_cost_total\{model="8b"/);
});

test("without prices nothing is said of cost", async () => {
  const { usage, metrics } = await asked({});
  assert.equal("cost" in usage, false);
  assert.doesNotMatch(metrics, /^canopy_cost_total\{/m);
});

test("responses and messages say the cost as their schemas in /openapi.json have it", async () => {
  const world = makeWorld({
    seed: "cost",
    replicas: 1,
    graphs: { moa: { layers, sampling: { max_tokens: 40 } } },
    models: Object.fromEntries(Object.entries(PRICES).map(([name, price]) => [name, { price }])),
  });
  await world.clock.run(async () => {
    const { app, close } = world.router();
    const post = async (path: string, fields: object) => {
      const body = JSON.stringify({ model: "moa", ...fields });
      const headers = { "content-type": "application/json" };
      return await (await app.request(path, { method: "POST", body, headers })).json();
    };
    const response = responseSchema.parse(await post("/v1/responses", { input: "Which way?" }));
    assert.ok((response.usage?.cost ?? 0) > 0);
    const messages = [{ role: "user", content: "Which way?" }];
    const message = anthropicMessageSchema.parse(await post("/v1/messages", { max_tokens: 40, messages }));
    assert.ok((message.usage.cost ?? 0) > 0);
    await close();
  });
});
