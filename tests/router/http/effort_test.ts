import assert from "node:assert/strict";
import { test } from "node:test";
import { ExitWorld } from "../../simulation/exit_world.ts";
import { makeWorld, sizes } from "../../simulation/world.ts";
import { runSchema } from "../../../router/http/runs/response_schema.ts";

const agents = sizes.map(({ name }) => ({ model: name }));
const layers = [{ agents }, { agents: [{ model: "32b" }] }];
const messages = [{ role: "user", content: "Which way?" }];

function effortWorld(graphs: Record<string, object>) {
  const exit = new ExitWorld("effort", "none");
  return makeWorld({
    seed: "effort",
    replicas: 1,
    graphs: Object.fromEntries(
      Object.entries(graphs).map((
        [name, graph],
      ) => [name, { sampling: { max_tokens: 40 }, layers, ...graph }]),
    ),
    earlyExit: (clock) => exit.services(clock),
    intercept: (request, clock) => exit.intercept(request, clock),
  });
}

/** Asks graph `moa` with this effort: status and body of the answer, and the run's record. */
async function asked(graphs: Record<string, object>, effort: unknown) {
  const world = effortWorld(graphs);
  return await world.clock.run(async () => {
    const { app, close } = world.router();
    const body = { model: "moa", messages, reasoning_effort: effort, canopy: { include: ["usage"] } };
    const init = {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
    };
    const response = await app.request("/v1/chat/completions", init);
    const answer = await response.json();
    const id = answer.canopy?.run_id;
    const record = id === undefined ? undefined : await (await app.request(`/v1/runs/${id}`)).json();
    if (record !== undefined) runSchema.parse(record);
    const metrics = await (await app.request("/metrics")).text();
    await close();
    return { status: response.status, answer, record, metrics };
  });
}

const exiting = { moa: { early_exit: { metric: "random", probability: 1 } } };

test("reasoning_effort chooses how far a run goes: low counts the run's answers, medium is the graph, high ends nothing early", async () => {
  const low = await asked(exiting, "low");
  assert.equal(low.status, 200, JSON.stringify(low.answer));
  assert.equal(low.record.effort, "low");
  assert.deepEqual(low.record.events[0].data, { graph: "moa", choices: 1, effort: "low" });
  assert.match(low.metrics, /^canopy_efforts_total\{graph="moa",effort="low"\} 1$/m);
  const medium = await asked(exiting, "medium");
  assert.deepEqual(medium.record.exits.map(({ metric }: { metric: string }) => metric), ["random"]);
  const high = await asked(exiting, "high");
  assert.equal(high.record.effort, "high");
  assert.deepEqual(high.record.exits, []);
  assert.ok(high.record.agents.every(({ state }: { state: string }) => state === "done"));
  assert.equal(high.answer.model, "moa");
  const none = await asked(exiting, undefined);
  assert.equal(none.record.effort, null);
});

test("a level may be another graph, or other settings; a value that is no level is a 400 that names it", async () => {
  const graphs = {
    small: { layers: [{ agents: [{ model: "4b" }] }] },
    moa: { effort: { low: { graph: "small" }, high: { early_exit: { metric: "random", probability: 1 } } } },
  };
  const low = await asked(graphs, "low");
  assert.deepEqual([low.record.graph, low.record.agents.length, low.answer.model], ["small", 1, "moa"]);
  const high = await asked(graphs, "high");
  assert.deepEqual(high.record.exits.map(({ metric }: { metric: string }) => metric), ["random"]);
  for (const wrong of ["most", 3, {}]) {
    const { status, answer } = await asked(graphs, wrong);
    assert.deepEqual([status, answer.error.param], [400, "reasoning_effort"]);
    assert.match(answer.error.message, /low, medium, high/);
  }
});

test("with effort root, the value goes to the root's engine as it came", async () => {
  const { status, record } = await asked({ moa: { effort: "root" } }, "minimal");
  assert.equal(status, 200);
  assert.equal(record.effort, null);
});
