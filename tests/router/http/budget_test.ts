import assert from "node:assert/strict";
import { test } from "node:test";
import { ExitWorld } from "../../simulation/exit_world.ts";
import { makeWorld, sizes } from "../../simulation/world.ts";

const agents = sizes.map(({ name }) => ({ model: name }));
const layers = [{ agents }, { agents: [{ model: "32b" }] }];
const messages = [{ role: "user", content: "Which way?" }];

interface Setting {
  readonly models?: Parameters<typeof makeWorld>[0]["models"];
  readonly layers?: readonly object[];
}

async function asked(request: object, { models = {}, layers: given = layers }: Setting = {}) {
  const exit = new ExitWorld("budget", "none");
  const world = makeWorld({
    seed: "budget",
    replicas: 1,
    graphs: { moa: { layers: given, sampling: { max_tokens: 60 }, answer_tokens: 60 } },
    earlyExit: (clock) => exit.services(clock),
    intercept: (request, clock) => exit.intercept(request, clock),
    models,
  });
  return await world.clock.run(async () => {
    const { app, close } = world.router();
    const init = {
      method: "POST",
      body: JSON.stringify({ model: "moa", messages, ...request }),
      headers: { "content-type": "application/json" },
    };
    const response = await app.request("/v1/chat/completions", init);
    const text = await response.text();
    const metrics = await (await app.request("/metrics")).text();
    await close();
    return { status: response.status, text, metrics };
  });
}

test("a budget in a request ends its run, and the answer's usage says what was spent and by which limit", async () => {
  const { status, text, metrics } = await asked({ canopy: { budget: { latency_ms: 300, tokens: 100_000 } } });
  assert.equal(status, 200, text);
  const { usage, choices } = JSON.parse(text);
  assert.equal(usage.spent.latency_ms, 300);
  assert.equal(usage.spent.ended_by, "latency_ms");
  assert.ok(usage.spent.tokens > 0 && choices[0].message.content.length > 0);
  assert.match(metrics, /^canopy_budgets_total\{graph="moa",limit="latency_ms"\} 1$/m);
  const streamed = await asked({
    stream: true,
    stream_options: { include_usage: true },
    canopy: { budget: { tokens: 150 } },
  });
  const last = streamed.text.split("\n\n").filter((event) => event.startsWith("data: {")).at(-1) ?? "";
  assert.equal(JSON.parse(last.slice(6)).usage.spent.ended_by, "tokens");
  const wide = JSON.parse((await asked({ canopy: { budget: { tokens: 100_000 } } })).text);
  assert.deepEqual([wide.usage.spent.ended_by, wide.usage.spent.tokens], [null, wide.usage.total_tokens]);
});

test("a budget of cost is refused where a model that may answer in another's place has no price", async () => {
  const price = { prompt: 1, completion: 4 };
  const models = { "8b": { price, fallback: ["4b"] }, "32b": { price, fallback: ["8b"] } };
  const alone = [{ agents: [{ model: "32b" }] }];
  const { status, text } = await asked({ canopy: { budget: { cost: 1 } } }, { models, layers: alone });
  assert.equal(status, 400, text);
  const { error } = JSON.parse(text);
  assert.equal(error.param, "canopy.budget.cost");
  assert.match(
    error.message,
    /and of those that may answer in their place: 4b has none; set models\.4b\.price/,
  );
});

const refused: readonly (readonly [object, string, RegExp])[] = [
  [{ canopy: { budget: { tokens: 0 } } }, "canopy.budget.tokens", /current value is 0/],
  [{ canopy: { budget: { latency_ms: "soon" } } }, "canopy.budget.latency_ms", /soon/],
  [{ canopy: { budget: { seconds: 3 } } }, "canopy.budget.seconds", /not known/],
  [{ canopy: { budget: {} } }, "canopy.budget", /give latency_ms, tokens or cost/],
  [{ canopy: { budget: { cost: 1 } } }, "canopy.budget.cost", /4b, 8b, 32b have none; set models\.4b\.price/],
  [{ canopy: { budget: { tokens: 9 }, root: "staircase" } }, "canopy.budget", /begins as a staircase/],
  [{ canopy: { budget: { tokens: 9 } }, n: 2 }, "canopy.budget", /several answers of the root/],
  [
    { canopy: { budget: { tokens: 9 } }, response_format: { type: "json_object" } },
    "canopy.budget",
    /response_format is for the root/,
  ],
];

for (const [request, param, message] of refused) {
  test(`a budget that cannot be kept is a 400 that names ${param}: ${JSON.stringify(request)}`, async () => {
    const { status, text } = await asked(request);
    assert.equal(status, 400, text);
    const { error } = JSON.parse(text);
    assert.equal(error.param, param);
    assert.match(error.message, message);
  });
}
