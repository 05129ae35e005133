import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClusterState, ExitDecision, ExitPolicy } from "../../../../scorer/policy/exit_policy.ts";
import { brokenWorker, type Script } from "../fake_engine.ts";
import { afterMs, FakeScorer, services, similarity, similarPolicy } from "../fake_scorer.ts";
import { makeWorld, readAll, traced, type World, type WorldOptions } from "../run_harness.ts";

const [slow, fast, mid] = [{ model: "slow" }, { model: "fast" }, { model: "mid" }];
const speeds: Record<string, Script> = {
  fast: { pieces: ["x", "y"], startMs: 10 },
  mid: { pieces: ["m"], startMs: 50 },
  slow: { pieces: ["half", "x"], startMs: 1, stepMs: 1000 },
};
const script = ({ model }: { model: string }) => speeds[model]!;
const models = ["slow", "fast", "mid"];
const early_exit = { metric: "agreement" };

/** Exits as soon as `count` members have answered. */
function exitAt(count: number, seen: ClusterState[] = [], more: Partial<ExitDecision> = {}): ExitPolicy {
  return {
    needs: { logprobs: false, similarity: undefined, verdicts: false },
    wants: () => ({ similarities: [], verdicts: [] }),
    decide: (state) => {
      seen.push(state);
      return {
        exit: state.completions.length >= count,
        keep: state.completions.map(({ agent }) => agent),
        consensus: undefined,
        numbers: { least: count },
        ...more,
      };
    },
  };
}

function exitWorld(options: Partial<WorldOptions> & { policy: ExitPolicy; scorer?: FakeScorer }): World {
  const { policy, scorer, ...rest } = options;
  return makeWorld({
    graph: { layers: [{ agents: [slow, fast, fast] }, { agents: [fast] }], early_exit },
    models,
    script,
    earlyExit: () =>
      services({
        ...(scorer === undefined ? {} : { scorer }),
        policyOf: ({ metric }) => metric === "none" ? undefined : policy,
      }),
    ...rest,
  });
}

test("on exit the members at work are aborted, their text is not used, and their tokens count as wasted", async () => {
  const seen: ClusterState[] = [];
  const world = exitWorld({ policy: exitAt(2, seen) });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.equal(world.clock.now(), 20);
    const record = run.record();
    const prompt = record.agents.at(-1)?.prompt;
    assert.ok(prompt?.kind === "chat");
    assert.equal(prompt.messages[0]?.content, "Final. Q: why?\nA:\n1. xy\n\n2. xy");
    assert.equal(record.agents[0]?.state, "cancelled");
    assert.equal(run.usage().wastedTokens, 1);
    // Its fellows wrote two tokens each, it had written one.
    assert.equal(run.usage().savedTokens, 1);
    const decided = record.events.find((event) => event.type === "exit_decided");
    const keep = ["l1.c1.a2", "l1.c1.a3"];
    assert.deepEqual(decided?.data, {
      exit: true,
      metric: "agreement",
      completions: 2,
      least: 2,
      ms: 0,
      keep,
    });
    const closed = record.events.find((event) => event.type === "cluster_closed");
    assert.deepEqual(closed?.data, { answers: keep, dropped: ["l1.c1.a1"] });
    assert.deepEqual(record.exits, [
      { cluster: "l1.c1", metric: "agreement", atMs: 10, completions: 2, exit: true, late: false, ms: 0 },
    ]);
    await run.ended;
  });
  assert.deepEqual(seen.length, 1);
  assert.equal(seen[0]?.question, "why?");
  assert.deepEqual(seen[0]?.unfinished, [{ agent: "l1.c1.a1", model: "slow" }]);
  assert.deepEqual(seen[0]?.completions, [
    { agent: "l1.c1.a2", model: "fast", text: "xy", logprobs: undefined, cut: false },
    { agent: "l1.c1.a3", model: "fast", text: "xy", logprobs: undefined, cut: false },
  ]);
  world.assertIdle();
});

test("a policy is not asked before min_agents or min_responses, nor when nobody is left to drop", async () => {
  for (
    const rules of [{ min_responses: 3 }, { early_exit: { metric: "agreement", min_agents: 3 } }]
  ) {
    const seen: ClusterState[] = [];
    const graph = { layers: [{ agents: [fast, fast, slow], ...rules }, { agents: [fast] }], early_exit };
    const world = exitWorld({ graph, policy: exitAt(1, seen) });
    await world.clock.run(async () => void await readAll(world.start()));
    assert.equal(seen.length, 0);
  }
});

test("with paper_literal a policy is asked from the first answer on", async () => {
  const graph = {
    layers: [{ agents: [slow, fast, mid] }, { agents: [fast] }],
    early_exit: { metric: "q", paper_literal: true },
  };
  const world = exitWorld({ graph, policy: exitAt(1) });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.equal(run.record().exits[0]?.completions, 1);
  });
  world.assertIdle();
});

test("what works only for a member that is dropped is stopped, too", async () => {
  // The second aggregator waits for a slow proposer when the other two have answered.
  const graph = {
    layers: [
      { clusters: [{ agents: [fast] }, { agents: [slow] }, { agents: [fast] }] },
      { agents: [fast, fast, fast] },
      { agents: [fast] },
    ],
    early_exit,
  };
  const world = exitWorld({ graph, policy: exitAt(2) });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.equal(world.clock.now(), 30);
    const states = Object.fromEntries(run.record().agents.map(({ id, state }) => [id, state]));
    assert.equal(states["l1.c2.a1"], "cancelled");
    assert.equal(states["l2.c1.a2"], "cancelled");
    await run.ended;
  });
  world.assertIdle();
});

test("an agent that one cluster drops works on while another cluster waits for it", async () => {
  const world = exitWorld({
    graph: {
      agents: {
        shared: slow,
        quick: fast,
        early: { ...fast, reads: ["quick", "shared"] },
        late: { ...fast, reads: ["shared"] },
        root: { ...fast, reads: ["early", "late"] },
      },
      early_exit: { metric: "agreement", min_agents: 1 },
    },
    policy: {
      ...exitAt(1),
      decide: ({ cluster, completions }) => ({
        exit: cluster === "early.reads",
        keep: completions.map(({ agent }) => agent),
        consensus: undefined,
        numbers: {},
      }),
    },
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    const records = new Map(run.record().agents.map((record) => [record.id, record]));
    assert.equal(records.get("early")?.startedAtMs, 10);
    assert.equal(records.get("shared")?.state, "done");
    assert.equal(records.get("late")?.startedAtMs, 2001);
    assert.equal(run.usage().savedTokens, undefined);
  });
  world.assertIdle();
});

test("answers that an exit does not keep are not read, and count as wasted", async () => {
  for (const slots of ["declared", "completion"]) {
    const world = exitWorld({
      graph: { layers: [{ agents: [slow, mid, fast] }, { agents: [fast] }], early_exit, slots },
      policy: exitAt(2, [], { keep: ["l1.c1.a2"] }),
    });
    await world.clock.run(async () => {
      const run = world.start();
      await readAll(run);
      const prompt = run.record().agents.at(-1)?.prompt;
      assert.ok(prompt?.kind === "chat");
      assert.equal(prompt.messages[0]?.content, "Final. Q: why?\nA:\n1. m");
      const closed = run.record().events.find((event) => event.type === "cluster_closed");
      assert.deepEqual(closed?.data, {
        answers: ["l1.c1.a2"],
        dropped: ["l1.c1.a1"],
        unread: ["l1.c1.a3"],
      });
      // One token of the member that was dropped, two of the one that was not kept.
      assert.equal(run.usage().wastedTokens, 3);
    });
    world.assertIdle();
  }
});

test("a policy or a scorer that breaks costs the run nothing: the cluster waits for its members", async () => {
  const broken = new Error("no scorer");
  const fail = () => {
    throw broken;
  };
  const scorer = new FakeScorer(fail);
  scorer.open = fail;
  const policies: [ExitPolicy, Record<string, unknown>][] = [
    [{ ...exitAt(1), decide: fail }, { error: "no scorer" }],
    [{ ...exitAt(1), wants: fail }, { error: "no scorer" }],
    [similarPolicy(0), { values: [null], incomplete: true }],
  ];
  for (const [policy, numbers] of policies) {
    const graph = { layers: [{ agents: [fast, fast, slow] }, { agents: [fast] }], early_exit };
    const world = exitWorld({ graph, policy, scorer });
    await world.clock.run(async () => {
      const run = world.start();
      assert.deepEqual(await readAll(run), ["xy"]);
      assert.equal(world.clock.now(), 2011);
      const data = run.record().events.find(({ type }) => type === "exit_decided")?.data ?? {};
      assert.equal(data["exit"], false);
      for (const [name, value] of Object.entries(numbers)) assert.deepEqual(data[name], value);
    });
    world.assertIdle();
  }
});

test("answers are fed while they are written, as successors read them, and dropped when the cluster closes", async () => {
  const words = [
    "<think>",
    "hm, ",
    "well",
    "</think>",
    ...Array.from({ length: 60 }, (_, at) => `word ${at} `),
  ];
  const scorer = new FakeScorer();
  const fedAtMs = new Map<number, number>();
  const world = exitWorld({
    graph: { layers: [{ agents: [slow, fast, fast] }, { agents: [mid] }], early_exit },
    policy: similarPolicy(0.5),
    scorer,
    script: ({ model }) => model === "fast" ? { pieces: words, stepMs: 1 } : script({ model }),
  });
  await world.clock.run(async () => {
    void world.clock.sleep(30).then(() => {
      const id = [...scorer.fed.keys()].find((key) => key.endsWith("a2"));
      fedAtMs.set(30, id === undefined ? 0 : scorer.text(id).length);
    });
    const run = world.start();
    await readAll(run);
    await run.ended;
    const answer = words.slice(4).join("").trim();
    for (const agent of ["l1.c1.a2", "l1.c1.a3"]) assert.equal(scorer.text(`${run.id}/${agent}`), answer);
    const [decided] = run.record().events.filter(({ type }) => type === "exit_decided");
    assert.deepEqual(decided?.data?.["scorer"], {
      embedder: "lexical",
      model: null,
      details: { dimensions: 8 },
    });
  });
  assert.ok((fedAtMs.get(30) ?? 0) > 100, "nothing was fed before the end");
  assert.deepEqual(scorer.asked, ["l1.c1.a2 l1.c1.a3"]);
  assert.deepEqual(scorer.left, []);
  world.assertIdle();
});

test("text that turns out to be reasoning is taken back: the answer is fed under another name", async () => {
  const scorer = new FakeScorer();
  const thought = "a long thought that nobody had announced as one ".repeat(3);
  const world = exitWorld({
    graph: { layers: [{ agents: [fast, fast, slow] }, { agents: [mid] }], early_exit },
    policy: similarPolicy(0.5),
    scorer,
    script: ({ model }) =>
      model === "fast" ? { pieces: [thought, thought, "</think> 42"], stepMs: 1 } : script({ model }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.equal(run.record().exits[0]?.exit, true);
    assert.equal(scorer.text(`${run.id}/l1.c1.a1~1`), "42");
    await run.ended;
  });
  assert.deepEqual(scorer.left, []);
});

test("a decision that is late leaves the cluster waiting, and the next answer is decided on anew", async () => {
  const scorer = new FakeScorer();
  const graph = {
    layers: [{ agents: [fast, fast, mid, slow] }, { agents: [fast] }],
    early_exit: { ...early_exit, deadline_ms: 20 },
  };
  const world = exitWorld({ graph, policy: similarPolicy(0.5), scorer });
  let calls = 0;
  scorer.compare = async () => {
    if (++calls === 1) await world.clock.sleep(1e6);
    return similarity(0.8);
  };
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.deepEqual(
      run.record().exits.map(({ completions, exit, late, ms }) => ({ completions, exit, late, ms })),
      [
        { completions: 2, exit: false, late: true, ms: 20 },
        { completions: 3, exit: true, late: false, ms: 0 },
      ],
    );
    assert.equal(world.clock.now(), 60);
    await run.ended;
  }, { limitMs: 1e7 });
});

test("a decision is void when another member answers or the cluster closes before it is made", async () => {
  const scorer = new FakeScorer();
  const graph = { layers: [{ agents: [fast, fast, mid, slow] }, { agents: [fast] }], early_exit };
  const world = exitWorld({ graph, policy: similarPolicy(0.95), scorer });
  scorer.compare = (a, b) => afterMs(world.clock, a === b ? 100 : 10, 0.9)(a, b, "fcs_u");
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    // The question of 10 ms would have been answered at 110 ms; that of 50 ms waits for what it asked.
    assert.deepEqual(run.record().exits.map(({ atMs, completions }) => [atMs, completions]), [[110, 3]]);
    // Each pair was compared once.
    assert.deepEqual(scorer.asked, ["l1.c1.a1 l1.c1.a2", "l1.c1.a1 l1.c1.a3", "l1.c1.a2 l1.c1.a3"]);
    await run.ended;
  });
  world.assertIdle();
});

test("a run whose members are all done does not wait for a decision", async () => {
  const scorer = new FakeScorer();
  const graph = { layers: [{ agents: [fast, fast, mid] }, { agents: [fast] }], early_exit };
  const world = exitWorld({ graph, policy: similarPolicy(0.5), scorer });
  scorer.compare = () => new Promise(() => {});
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.equal(world.clock.now(), 60);
    assert.deepEqual(traced(run, "exit"), []);
    await run.ended;
  });
  world.assertIdle();
});

test("similarities that are none are not known", async () => {
  const wrong = [NaN, Infinity, 7, -3].map((value) => ({ ...similarity(0.5), value }));
  const shapes = ["null", "7", "{}", '{"value":"0.9"}', '{"value":null}', '{"value":{"value":1}}'];
  for (const found of [...wrong, ...shapes.map((json) => JSON.parse(json))]) {
    const scorer = new FakeScorer(() => found);
    const world = exitWorld({ policy: similarPolicy(0), scorer });
    await world.clock.run(async () => {
      const run = world.start();
      await readAll(run);
      assert.deepEqual(run.record().exits.map(({ exit }) => exit), [false]);
    });
    world.assertIdle();
  }
});

test("log-probabilities are asked for where a policy looks at them, and where the engine has them", async () => {
  for (const logprobs of [true, false]) {
    const seen: ClusterState[] = [];
    const policy = exitAt(2, seen);
    const world = exitWorld({
      policy: { ...policy, needs: { ...policy.needs, logprobs: true } },
      capabilities: { logprobs },
      script: ({ model }) => ({
        ...script({ model }),
        logprob: -0.5,
        ...(model === "fast" ? {} : { pieces: ["z"] }),
      }),
      graph: { layers: [{ agents: [slow, fast, fast] }, { agents: [fast] }, { agents: [mid] }], early_exit },
    });
    await world.clock.run(async () => {
      const run = world.start();
      for await (const event of run.output) {
        if (event.type === "delta") assert.equal(event.delta.logprobs, undefined);
      }
      await run.ended;
    });
    const asked = (model: string) => world.engines.get(model)!.calls.map(({ request }) => request.logprobs);
    assert.deepEqual(asked("slow"), [logprobs ? 0 : undefined]);
    // The aggregator is alone in its cluster: nothing is decided there.
    assert.deepEqual(asked("fast").at(-1), undefined);
    assert.deepEqual(seen[0]?.completions[0]?.logprobs, logprobs ? [-0.5, -0.5] : undefined);
  }
});

test("an engine that refuses the router's own log-probabilities is asked again without", async () => {
  const seen: ClusterState[] = [];
  const policy = exitAt(2, seen);
  const refusal = {
    piece: 0,
    error: Object.assign(brokenWorker("w1", "logprobs are not allowed"), { workerStatus: 400 }),
  };
  const world = exitWorld({
    policy: { ...policy, needs: { ...policy.needs, logprobs: true } },
    capabilities: { logprobs: true },
    modelFields: { retries: 0 },
    script: ({ model, request }) => ({
      ...script({ model }),
      ...(request.logprobs === undefined ? {} : { failAt: refusal }),
    }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    assert.deepEqual(await readAll(run), ["xy"]);
    assert.equal(run.usage().agents[1]?.calls, 2);
    await run.ended;
  });
  assert.equal(seen[0]?.completions[0]?.logprobs, undefined);
  world.assertIdle();
});

test("a run that ends early leaves nothing of a decision behind", async () => {
  const scorer = new FakeScorer(() => new Promise(() => {}));
  const world = exitWorld({ policy: similarPolicy(0.5), scorer });
  await world.clock.run(async () => {
    const run = world.start();
    await world.clock.sleep(15);
    await run.cancel(new Error("enough"));
  });
  assert.deepEqual(scorer.left, []);
  world.assertIdle();
});

test("without services a graph with a metric is refused", () => {
  assert.throws(
    () =>
      makeWorld({ graph: { layers: [{ agents: [fast, fast] }, { agents: [fast] }], early_exit }, models }),
    { code: "invalid_config", param: "early_exit.metric", message: /without a scorer: use "none"/ },
  );
});
