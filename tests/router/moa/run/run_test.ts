import assert from "node:assert/strict";
import { test } from "node:test";
import { errorOf, eventsOf, makeWorld, readAll, traced, type WorldOptions } from "../run_harness.ts";

const agent = { model: "a" };
const tree = {
  layers: [
    { clusters: 3, agents: [{ model: "a" }, { model: "b" }, { model: "c" }] },
    { agents: [{ model: "a" }, { model: "b" }, { model: "c" }] },
    { agents: [{ model: "c" }] },
  ],
};
const dense = {
  layers: [
    { agents: Array.from({ length: 9 }, () => agent) },
    { agents: Array.from({ length: 9 }, () => agent) },
    { agents: [agent] },
  ],
};
const named = (options: Partial<WorldOptions>) =>
  makeWorld({ graph: tree, models: ["a", "b", "c"], ...options });

test("a 9-3-1 tree makes 13 calls and each aggregator reads the three answers of its own cluster", async () => {
  let answers = 0;
  const world = named({ script: () => ({ pieces: [`answer ${++answers}`], startMs: 1 }) });
  await world.clock.run(async () => {
    const run = world.start();
    assert.deepEqual(await readAll(run), ["answer 13"]);
    await run.ended;
    const prompts = new Map(run.record().agents.map((record) => [record.id, record.prompt]));
    assert.equal(prompts.size, 13);
    assert.deepEqual(prompts.get("l1.c2.a1"), {
      kind: "chat",
      messages: [{ role: "user", content: "why?" }],
    });
    assert.deepEqual(prompts.get("l2.c1.a2"), {
      kind: "chat",
      messages: [{ role: "user", content: "Q: why?\nA:\n1. answer 4\n\n2. answer 5\n\n3. answer 6" }],
    });
    assert.deepEqual(prompts.get("l3.c1.a1"), {
      kind: "chat",
      messages: [{
        role: "user",
        content: "Final. Q: why?\nA:\n1. answer 10\n\n2. answer 11\n\n3. answer 12",
      }],
    });
  });
  assert.equal([...world.engines.values()].reduce((sum, engine) => sum + engine.calls.length, 0), 13);
  world.assertIdle();
});

test("a dense 9-9-1 graph makes 19 calls and each second-layer agent reads all nine answers", async () => {
  const world = makeWorld({ graph: dense, script: () => ({ pieces: ["x"], startMs: 1 }) });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    await run.ended;
    const second = run.record().agents.filter((record) => record.id.startsWith("l2."));
    for (const { prompt } of second) {
      assert.ok(prompt?.kind === "chat");
      assert.match(String(prompt.messages[0]?.content), /1\. x\n\n.*9\. x$/s);
    }
  });
  assert.equal(world.engines.get("a")!.calls.length, 19);
});

test("a slow cluster does not delay the successor of another one", async () => {
  const world = makeWorld({
    graph: {
      layers: [
        { clusters: [{ agents: [{ model: "slow" }] }, { agents: [{ model: "fast" }] }] },
        { agents: [{ model: "fast" }, { model: "fast" }] },
        { agents: [{ model: "fast" }] },
      ],
    },
    models: ["slow", "fast"],
    script: ({ model }) => ({ pieces: ["x"], startMs: model === "slow" ? 1000 : 10 }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    const started = new Map(run.record().agents.map((record) => [record.id, record.startedAtMs]));
    assert.equal(started.get("l2.c1.a2"), 10);
    assert.equal(started.get("l2.c1.a1"), 1000);
    assert.equal(started.get("l3.c1.a1"), 1010);
  });
});

test("an explicit graph runs in the order of its dependencies and numbers what each agent reads", async () => {
  const world = makeWorld({
    graph: {
      agents: {
        final: { model: "a", reads: ["critic", "writer"], prompt: "judge" },
        critic: { model: "a", reads: ["writer"] },
        writer: { model: "a" },
      },
    },
    prompts: {
      propose: "[input_prompts]",
      aggregate: "Check [responses]",
      judge: "Draft <|answer:writer|> Critique <|answer:critic|> All: [responses]",
    },
    script: ({ prompt }) => ({ pieces: [prompt.startsWith("Check") ? "weak" : "draft"], startMs: 5 }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    const contents = run.record().agents.map(({ id, prompt }) =>
      `${id}: ${prompt?.kind === "chat" ? prompt.messages[0]?.content : ""}`
    );
    assert.deepEqual(contents, [
      "writer: why?",
      "critic: Check 1. draft",
      "final: Draft draft Critique weak All: 1. weak\n\n2. draft",
    ]);
  });
});

test("with slots in completion order the first answer takes the first slot", async () => {
  const world = makeWorld({
    graph: {
      slots: "completion",
      layers: [{ agents: [{ model: "slow" }, { model: "fast" }] }, { agents: [{ model: "fast" }] }],
    },
    models: ["slow", "fast"],
    script: ({ model }) => ({ pieces: [model], startMs: model === "slow" ? 100 : 1 }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    const prompt = run.record().agents.at(-1)?.prompt;
    assert.ok(prompt?.kind === "chat");
    assert.equal(prompt.messages[0]?.content, "Final. Q: why?\nA:\n1. fast\n\n2. slow");
  });
});

test("the root streams piece by piece and ends with one end event", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [agent] }] },
    script: () => ({ pieces: ["a", "b", "c"], startMs: 10, stepMs: 5 }),
  });
  await world.clock.run(async () => {
    const arrivals: [number, string][] = [];
    for await (const event of world.start().output) {
      arrivals.push([world.clock.now(), event.type === "delta" ? event.delta.text : event.finishReason]);
    }
    assert.deepEqual(arrivals, [[10, "a"], [15, "b"], [20, "c"], [25, "stop"]]);
  });
  world.assertIdle();
});

test("a client that does not read pauses its own stream, and no other run", async () => {
  const pieces = Array.from({ length: 1000 }, () => "x");
  const world = makeWorld({
    graph: { layers: [{ agents: [agent] }] },
    script: () => ({ pieces, stepMs: 1 }),
  });
  await world.clock.run(async () => {
    const engine = world.engines.get("a")!;
    const slow = world.start();
    const reader = slow.output[Symbol.asyncIterator]();
    await reader.next();
    await world.clock.sleep(5000);
    assert.ok(engine.sent < 100, `${engine.sent} pieces were taken from the engine`);
    const quick = await readAll(world.start());
    assert.equal(quick[0]?.length, 1000);
    assert.ok(engine.sent < 1100);
    let read = 1;
    while (!(await reader.next()).done) read++;
    assert.equal(read, 1001);
  });
  world.assertIdle();
});

test("n choices are n calls of the root with the same prompt and seeds counted up", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [agent, agent] }, { agents: [agent] }] },
    script: ({ request }) => ({ pieces: [`seed ${request.sampling.seed}`], startMs: 1, promptTokens: 7 }),
  });
  await world.clock.run(async () => {
    const run = world.start({ choices: 3, rootSampling: { seed: 40, temperature: 0.5 } });
    const events = await eventsOf(run);
    const ends = events.filter((event) => event.type === "end").map((event) => event.index);
    assert.deepEqual(ends.sort(), [0, 1, 2]);
    const texts = events.flatMap((event) => event.type === "delta" ? [event.delta.text] : []);
    assert.deepEqual(texts.sort(), ["seed 40", "seed 41", "seed 42"]);
    const usage = run.usage();
    const root = usage.agents.find((entry) => entry.agent === "l2.c1.a1");
    assert.deepEqual(root, {
      agent: "l2.c1.a1",
      model: "a",
      calls: 3,
      promptTokens: 21,
      completionTokens: 3,
      cachedTokens: undefined,
      reasoningTokens: 0,
      wastedTokens: 0,
      warmTokens: undefined,
      cost: undefined,
      cutTokens: undefined,
      splicedTokens: undefined,
      splicedCachedTokens: undefined,
      savedTokens: undefined,
    });
    assert.equal(usage.calls, 5);
    assert.equal(usage.promptTokens, 35);
    const roots = world.engines.get("a")!.calls.slice(2).map((call) => call.request);
    assert.equal(new Set(roots.map((request) => JSON.stringify(request.prompt))).size, 1);
    assert.equal(new Set(roots.map((request) => request.id)).size, 3);
    assert.deepEqual(roots.map((request) => request.sampling.temperature), [0.5, 0.5, 0.5]);
    assert.deepEqual(run.record().agents.map((record) => record.id).slice(2), [
      "l2.c1.a1",
      "l2.c1.a1#2",
      "l2.c1.a1#3",
    ]);
  });
});

test("a client's parameters win over the root's own and touch no other agent", async () => {
  const sampling = { temperature: 0.1, max_tokens: 50, top_k: 5, ignore_eos: true };
  const world = makeWorld({
    graph: { sampling, layers: [{ agents: [agent] }, { agents: [agent] }] },
    modelFields: { sampling: { min_p: 0.2, temperature: 0.9 } },
  });
  await world.clock.run(async () => {
    await readAll(world.start({
      rootSampling: { temperature: 1, stop: ["END"], extra: { tools: [] } },
      rootLogprobs: 3,
      headers: { "x-request-id": "r1" },
    }));
  });
  const [leaf, root] = world.engines.get("a")!.calls.map((call) => call.request);
  const own = { min_p: 0.2, temperature: 0.1, max_tokens: 50, top_k: 5, extra: { ignore_eos: true } };
  assert.deepEqual(leaf?.sampling, own);
  assert.equal(leaf?.logprobs, undefined);
  assert.deepEqual(root?.sampling, {
    ...own,
    temperature: 1,
    stop: ["END"],
    extra: { ignore_eos: true, tools: [] },
  });
  assert.equal(root?.logprobs, 3);
  assert.deepEqual(leaf?.headers, { "x-request-id": "r1" });
});

test("successors read answers without reasoning, unless the graph says otherwise", async () => {
  for (const strip of [true, false]) {
    const world = makeWorld({
      graph: { strip_reasoning: strip, layers: [{ agents: [agent] }, { agents: [agent] }] },
      script: () => ({ pieces: ["<think>hm", "m</think>\n\n", " 42 "] }),
    });
    await world.clock.run(async () => {
      await readAll(world.start());
    });
    const prompt = world.engines.get("a")!.calls[1]!.request.prompt;
    assert.ok(prompt.kind === "chat");
    const answer = strip ? "42" : "<think>hmm</think>\n\n 42";
    assert.equal(prompt.messages[0]?.content, `Final. Q: why?\nA:\n1. ${answer}`);
  }
});

test("calls wait for a full model and are served in the order of their runs", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [agent, agent] }, { agents: [agent] }] },
    workers: ["w1"],
    capacity: 1,
    script: () => ({ pieces: ["x"], startMs: 10 }),
  });
  await world.clock.run(async () => {
    const order: number[] = [];
    const runs = [0, 1, 2].map(async (index) => {
      await readAll(world.start());
      order.push(index);
    });
    await Promise.all(runs);
    assert.deepEqual(order, [0, 1, 2]);
    assert.equal(world.clock.now(), 90);
  });
  assert.equal(world.engines.get("a")!.maxActive, 1);
  world.assertIdle();
});

test("the trace tells a run's story in order and lets a late reader see it all", async () => {
  const layers = [{ agents: [agent] }, { agents: [agent] }];
  const world = makeWorld({ graph: { layers, incremental_prefill: "off" } });
  await world.clock.run(async () => {
    const run = world.start();
    const live = (async () => {
      const types: string[] = [];
      for await (const event of run.events(new AbortController().signal)) types.push(event.type);
      return types;
    })();
    await readAll(run);
    await run.ended;
    const of = (id: string) =>
      ["queued", "placed", "first_token", "done"].map((what) => `agent_${what} ${id}`);
    assert.deepEqual(traced(run, ""), [
      "run_started",
      ...of("l1.c1.a1"),
      "cluster_closed l1.c1",
      ...of("l2.c1.a1"),
      "run_done",
    ]);
    assert.deepEqual(await live, run.record().events.map((event) => event.type));
    const stored = world.moa.get(run.id)!;
    assert.notEqual(stored, run);
    assert.deepEqual(stored.record(), run.record());
    assert.equal(world.moa.list()[0]?.id, run.id);
  });
});

test("request ids have one length, so that none is the beginning of another", async () => {
  const world = makeWorld({ graph: dense });
  await world.clock.run(async () => void await readAll(world.start()));
  const ids = world.engines.get("a")!.calls.map((call) => call.request.id);
  assert.equal(new Set(ids).size, 19);
  assert.equal(new Set(ids.map((id) => id.length)).size, 1);
});

test("no run starts once the server shuts down, and those that run are cancelled", async () => {
  const world = makeWorld({
    graph: tree,
    models: ["a", "b", "c"],
    script: () => ({ pieces: [], hangAt: 0 }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    const error = errorOf(run);
    await world.clock.sleep(5);
    await world.moa.close(new Error("going down"));
    world.assertIdle();
    assert.match(String(await error), /The run was cancelled: going down/);
    assert.throws(() => world.start(), { code: "shutting_down", status: 503 });
  });
});

test("a record has the log-probabilities that were asked for, and nobody else's", async () => {
  const world = named({ script: () => ({ pieces: ["a", "b"], logprob: -0.25 }) });
  await world.clock.run(async () => {
    const run = world.start({ rootLogprobs: 0 });
    await readAll(run);
    await run.ended;
    const logprobs = run.record().agents.map((agent) => agent.logprobs);
    assert.deepEqual(logprobs.at(-1), [-0.25, -0.25]);
    assert.ok(logprobs.slice(0, -1).every((one) => one === undefined));
  });
});
