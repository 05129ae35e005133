import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { ExitWorld } from "../../simulation/exit_world.ts";
import { makeWorld, sizes } from "../../simulation/world.ts";
import { runSchema } from "../../../router/http/runs/response_schema.ts";

const agents = sizes.map(({ name }) => ({ model: name }));
const early_exit = { metric: "random", probability: 1 };

function exitRouter(graph: Record<string, unknown>) {
  const exit = new ExitWorld("http", "none");
  const world = makeWorld({
    seed: "http",
    replicas: 1,
    graphs: { moa: { sampling: { max_tokens: 60 }, ...graph } },
    earlyExit: (clock) => exit.services(clock),
    intercept: (request, clock) => exit.intercept(request, clock),
  });
  return { world, exit };
}

function post(body: unknown): RequestInit {
  return { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
}

const messages = [{ role: "user", content: "Which way?" }];

test("an exit of a virtual model is in its usage, its record, its trace and the metrics", async () => {
  const layers = [{ agents }, { agents: [{ model: "32b" }] }];
  const { world } = exitRouter({ layers, early_exit });
  await world.clock.run(async () => {
    const { app, close } = world.router();
    const response = await app.request(
      "/v1/chat/completions",
      post({ model: "moa", messages, canopy: { include: ["usage", "trace", "panel"] } }),
    );
    assert.equal(response.status, 200);
    const { canopy } = await response.json();
    assert.deepEqual(canopy.panel.map(({ state }: { state: string }) => state).sort(), [
      "cancelled",
      "done",
      "done",
    ]);
    assert.ok(canopy.usage.wasted_tokens > 0);
    assert.ok(canopy.usage.saved_tokens_estimate >= 0);
    const decided = canopy.trace.find(({ type }: { type: string }) => type === "exit_decided");
    assert.deepEqual([decided.data.exit, decided.data.metric, decided.data.completions], [true, "random", 2]);
    const record = await (await app.request(`/v1/runs/${canopy.run_id}`)).json();
    runSchema.parse(record);
    assert.deepEqual(record.exits.map(({ exit }: { exit: boolean }) => exit), [true]);
    assert.equal(record.root_skipped, false);
    const metrics = await (await app.request("/metrics")).text();
    for (
      const line of [
        'canopy_exit_decisions_total{graph="moa",layer="1",metric="random",decision="exit"} 1',
        'canopy_exit_decision_seconds_count{metric="random"} 1',
        'canopy_agents_total{model="32b",became="skipped"} 1',
        'canopy_activation_share{model="32b"} 0.5',
        'canopy_activation_share{model="4b"} 1',
        'canopy_call_share{model="32b"} 0.5',
      ]
    ) assert.ok(metrics.split("\n").includes(line), `${line}\nis not in\n${metrics}`);
    await close();
  });
});

test("a skipped root is an answer like any other, streamed or whole", async () => {
  const layers = [{ agents }, { agents: [{ model: "32b" }] }];
  const { world, exit } = exitRouter({
    layers,
    // Longer than any answer: one that is cut agrees with nobody.
    sampling: { max_tokens: 4000 },
    early_exit: { metric: "verdict", skip_root: 0.5, veto_below: 0, diversity_guard: false },
  });
  await world.clock.run(async () => {
    const { app, services, close } = world.router();
    const whole = await (await app.request("/v1/chat/completions", post({ model: "moa", messages }))).json();
    const [skipped] = services.moa.list();
    assert.equal(skipped?.rootSkipped, true, "the seed gives no consensus any more");
    assert.equal(whole.choices[0].finish_reason, "stop");
    assert.ok(exit.verdicts > 0);
    const body = { model: "moa", messages, stream: true, stream_options: { include_usage: true } };
    const streamed = await (await app.request("/v1/chat/completions", post(body))).text();
    const events = streamed.split("\n\n").filter((event) => event.startsWith("data: {")).map((event) =>
      JSON.parse(event.slice(6))
    );
    const text = events.map((event) => event.choices[0]?.delta?.content ?? "").join("");
    assert.ok(text.length > 0);
    assert.equal(events.findLast((event) => event.choices.length > 0).choices[0].finish_reason, "stop");
    // All that ran is counted: three agents and the verdicts.
    const record = services.moa.list().find(({ id }) => id !== skipped.id);
    assert.equal(events.at(-1).usage.completion_tokens, record?.usage.completionTokens);
    assert.match(streamed, /data: \[DONE\]/);
    await close();
  });
});

test("a graph in a request exits early, and what it cannot do is a 400", async () => {
  const { world } = exitRouter({ layers: [{ agents: [{ model: "4b" }] }] });
  await world.clock.run(async () => {
    const { app, close } = world.router();
    const graph = {
      sampling: { max_tokens: 60 },
      include: ["trace"],
      agents: {
        a: { model: "4b", prompt: "A" },
        b: { model: "8b", prompt: "B" },
        c: { model: "32b", prompt: "C" },
        judge: { model: "8b", prompt: "[responses]", reads: ["a", "b", "c"], early_exit },
      },
    };
    const response = await app.request("/v1/graph", post(graph));
    const answer = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    assert.deepEqual([answer.agents.c.state, answer.agents.judge.state], ["cancelled", "done"]);
    assert.ok(answer.trace.some(({ type }: { type: string }) => type === "exit_decided"));
    const patterned = { metric: "answer", answer: { pattern: "(a+)+$(" } };
    const refused = await app.request("/v1/graph", post({ ...graph, early_exit: patterned }));
    assert.equal(refused.status, 400);
    assert.match((await refused.json()).error.param, /^early_exit\.answer\.pattern/);
    await close();
  });
});

type Json = Record<string, unknown> & { data?: Record<string, unknown> };
/** A decision's figures as the record of a run shows them. */
interface Drawn {
  readonly exit: boolean;
  readonly completions: number;
  readonly confidences: readonly {
    agent: string;
    tokens: number;
    mean_logprob: number;
    confidence: number;
  }[];
  readonly similarities: readonly { of: readonly [string, string]; value: number }[];
  readonly [figure: string]: unknown;
}

/** Asks a graph that samples exits by Q, in a world of this seed; the run's record with its decisions. */
async function sampledExits(worldSeed: string, requests: readonly object[]) {
  const exit = new ExitWorld(worldSeed, "none");
  const world = makeWorld({
    seed: worldSeed,
    replicas: 1,
    graphs: {
      moa: {
        layers: [{ clusters: 2, agents }, { agents: [{ model: "32b" }] }],
        sampling: { max_tokens: 60 },
        early_exit: { metric: "q", gamma: 0.3 },
      },
    },
    earlyExit: (clock) => exit.services(clock),
    intercept: (request, clock) => exit.intercept(request, clock),
  });
  const records: { draw_seed: string; decisions: { cluster: string; data: Drawn }[] }[] = [];
  await world.clock.run(async () => {
    const { app, close } = world.router();
    for (const request of requests) {
      const body = { model: "moa", messages, canopy: { include: ["usage"] }, ...request };
      const { canopy } = await (await app.request("/v1/chat/completions", post(body))).json();
      const record = await (await app.request(`/v1/runs/${canopy.run_id}`)).json();
      runSchema.parse(record);
      const decisions = record.events.filter(({ type }: Json) => type === "exit_decided");
      records.push({ draw_seed: record.draw_seed, decisions });
    }
    await close();
  });
  return records;
}

test("the same seed of a request draws the same, whatever the process; the record shows the seed of any other", async () => {
  const draws = (record: Awaited<ReturnType<typeof sampledExits>>[number] | undefined) =>
    new Map(record?.decisions.map(({ cluster, data }) => [`${cluster} ${data.completions}`, data.u]));
  const [first, second, other, own] = await sampledExits("one", [{ seed: 7 }, { seed: 7 }, { seed: 8 }, {}]);
  const [elsewhere] = await sampledExits("two", [{ seed: 7 }]);
  assert.equal(first?.draw_seed, "7");
  assert.ok((first?.decisions.length ?? 0) > 1);
  for (const again of [second, elsewhere]) {
    for (const [key, u] of draws(again)) assert.equal(u, draws(first).get(key) ?? u, key);
    assert.ok([...draws(again).keys()].some((key) => draws(first).has(key)));
  }
  assert.notDeepEqual(draws(other), draws(first));
  assert.match(own?.draw_seed ?? "", /^\d+$/);
  const [repeated] = await sampledExits("three", [{ seed: Number(own?.draw_seed) }]);
  const shared = [...draws(repeated)].filter(([key]) => draws(own).has(key));
  assert.ok(shared.length > 0);
  for (const [key, u] of shared) assert.equal(u, draws(own).get(key), key);
});

test("C, P, B, Q and u can be calculated again from the record of a run alone", async () => {
  const records = await sampledExits("record", [{ seed: 1 }, { seed: 2 }, {}]);
  const near = (actual: unknown, expected: number, what: string) =>
    assert.ok(Math.abs(Number(actual) - expected) < 1e-12, `${what}: ${actual}, not ${expected}`);
  let decided = 0;
  for (const { draw_seed, decisions } of records) {
    for (const { cluster, data } of decisions) {
      if (data.guard !== undefined) continue;
      decided++;
      const c = new Map(data.confidences.map(({ agent, mean_logprob }) => [agent, Math.exp(mean_logprob)]));
      assert.equal(c.size, data.completions);
      for (const { agent, tokens, confidence } of data.confidences) {
        assert.ok(agent.startsWith(`${cluster}.a`) && tokens > 0);
        near(confidence, c.get(agent)!, "C");
      }
      const squares = [...c.values()].map((value) => value ** 2);
      const cBar = Math.sqrt(squares.reduce((a, b) => a + b) / c.size);
      near(data.c_bar, cBar, "mean C");
      const weights = data.similarities.map(({ of: [a, b] }) => c.get(a)! * c.get(b)!);
      const weighted = data.similarities.map(({ value }, index) => value * weights[index]!);
      assert.equal(weights.length, c.size * (c.size - 1) / 2);
      const p = weighted.reduce((a, b) => a + b) / weights.reduce((a, b) => a + b);
      near(data.p, p, "P");
      const tau = Number(data.tau);
      const b = 1 - Math.abs(p - tau) / Math.max(tau, 1 - tau);
      near(data.b, b, "B");
      const q = cBar ** Number(data.gamma) * b ** (1 - Number(data.gamma));
      near(data.q, q, "Q");
      assert.equal(data.seed, draw_seed);
      const u = new Random(JSON.stringify(["early exit", draw_seed, cluster, data.completions])).next();
      assert.equal(data.u, u);
      assert.equal(data.exit, u < q);
    }
  }
  assert.ok(decided > 3);
});
