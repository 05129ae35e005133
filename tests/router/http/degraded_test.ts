import assert from "node:assert/strict";
import { test } from "node:test";
import { isJsonObject } from "../../../base/json.ts";
import { EngineError } from "../../../router/worker/engine_error.ts";
import { graphApp } from "./graph/graph_app.ts";
import { parseEvents } from "./fakes.ts";
import { runSchema } from "../../../router/http/runs/response_schema.ts";

const refused = new EngineError("Worker w1 answered with status 401: wrong key", {
  code: "worker_refused",
  status: 401,
  workerUrl: "http://w1",
  workerStatus: 401,
  retryable: false,
});
const question = { model: "moa", messages: [{ role: "user", content: "Hi" }] };
const failed = [{ agent: "l1.c1.a1", model: "small", reason: refused.message }];

/** Every other call of the small model fails. */
function halfBroken() {
  let calls = 0;
  return graphApp({
    script: (_, model) =>
      model === "small" && ++calls % 2 === 1
        ? { pieces: [], failAt: { piece: 0, error: refused } }
        : { pieces: ["ok"], startMs: 5 },
  });
}

test("an answer for which agents failed says so in a header, its usage and the run's record", async () => {
  const { app, clock, post } = halfBroken();
  await clock.run(async () => {
    const response = await post("/v1/chat/completions", { ...question, canopy: { include: ["usage"] } });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("x-canopy-degraded"), "1 of 2 agents failed");
    const { usage, canopy } = await response.json();
    assert.deepEqual(usage.degraded, { agents: 2, failed });
    assert.deepEqual(canopy.usage.degraded, { agents: 2, failed });
    const run = await (await app.request(`/v1/runs/${response.headers.get("x-canopy-run-id")}`)).json();
    runSchema.parse(run);
    assert.deepEqual(run.usage.degraded, { agents: 2, failed });
    const { data } = await (await app.request("/v1/runs")).json();
    assert.deepEqual(data[0].usage.degraded, { agents: 2, failed });
  });
});

test("a stream says in its header what has failed by then, and all of it in its usage", async () => {
  const { clock, post } = halfBroken();
  await clock.run(async () => {
    const body = { ...question, stream: true, stream_options: { include_usage: true } };
    const response = await post("/v1/chat/completions", body);
    assert.equal(response.headers.get("x-canopy-degraded"), "1 of 2 agents failed");
    const last = parseEvents(await response.text()).filter(isJsonObject).at(-1);
    assert.deepEqual(isJsonObject(last?.usage) && last.usage.degraded, { agents: 2, failed });
  });
});

test("an answer for which all agents spoke says nothing of the kind", async () => {
  const { clock, post } = graphApp();
  await clock.run(async () => {
    const response = await post("/v1/chat/completions", question);
    assert.equal(response.headers.get("x-canopy-degraded"), null);
    assert.equal("degraded" in (await response.json()).usage, false);
  });
});

test("a graph in a request says the same", async () => {
  const { clock, post } = halfBroken();
  await clock.run(async () => {
    const agents = {
      "l1.c1.a1": { model: "small", prompt: "A" },
      other: { model: "big", prompt: "B" },
    };
    const response = await post("/v1/graph", { agents });
    assert.equal(response.headers.get("x-canopy-degraded"), "1 of 2 agents failed");
    assert.deepEqual((await response.json()).usage.degraded, { agents: 2, failed });
  });
});
