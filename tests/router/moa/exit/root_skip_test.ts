import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import type { Consensus, ExitPolicy } from "../../../../scorer/policy/exit_policy.ts";
import type { Script } from "../fake_engine.ts";
import { FakeScorer, services, similarity } from "../fake_scorer.ts";
import { eventsOf, makeWorld, readAll, type World } from "../run_harness.ts";

const [a, b] = [{ model: "a" }, { model: "b" }];
const early_exit = { metric: "agreement", skip_root: 0.6 };

/** Names a consensus once all have answered; with `exits`, exits at so many answers. */
function consenting(consensus: Consensus | undefined, exits = Infinity, compares = false): ExitPolicy {
  return {
    needs: { logprobs: false, similarity: compares ? "fcs_u" : undefined, verdicts: false },
    wants: ({ completions }) => ({
      similarities: compares && completions.length > 1 ? [[0, 1]] : [],
      verdicts: [],
    }),
    decide: ({ completions }) => ({
      exit: completions.length >= exits,
      keep: completions.map(({ agent }) => agent),
      consensus,
      numbers: {},
    }),
  };
}

const share = (share: number, agent = "l1.c1.a2") => ({ share, agent });

function skipWorld(
  policy: ExitPolicy,
  options: { graph?: unknown; scorer?: FakeScorer; b?: Script } = {},
): World {
  return makeWorld({
    graph: options.graph ?? { layers: [{ agents: [a, b, b] }, { agents: [a] }], early_exit },
    models: ["a", "b"],
    capabilities: { logprobs: true },
    script: ({ model }) =>
      model === "a"
        ? { pieces: ["root ", "text"], startMs: 10 }
        : options.b ?? { pieces: ["four ", "ty ", "two"], startMs: 20 },
    earlyExit: () =>
      services({
        ...(options.scorer === undefined ? {} : { scorer: options.scorer }),
        policyOf: ({ metric }) => metric === "none" ? undefined : policy,
      }),
  });
}

async function played(world: World, input: Partial<RunInput> = {}) {
  return await world.clock.run(async () => {
    const run = world.start(input);
    const events = await eventsOf(run);
    await run.ended;
    const decided = run.record().events.find(({ type }) => type === "root_decided");
    return { run, events, decided, ms: world.clock.now() };
  });
}

test("when the last cluster agrees, its best answer is the run's, and the root is not asked", async () => {
  const world = skipWorld(consenting(share(0.7)));
  const { run, events, decided, ms } = await played(world);
  assert.deepEqual(events, [
    { type: "delta", index: 0, delta: { type: "delta", text: "four ty two" } },
    { type: "end", index: 0, finishReason: "stop" },
  ]);
  assert.equal(ms, 20);
  const record = run.record();
  assert.ok(record.rootSkipped && record.state === "done");
  assert.equal(record.agents.at(-1)?.state, "cancelled");
  assert.equal(world.engines.get("a")!.calls.length, 1);
  assert.deepEqual(decided?.data?.["consensus"], share(0.7));
  assert.equal(decided?.data?.["skip"], true);
  // The root would have written about as much as the others: (2 + 3 + 3) / 3.
  const root = run.usage().agents.find(({ agent }) => agent === "l2.c1.a1");
  assert.deepEqual([root?.calls, root?.completionTokens, root?.savedTokens], [0, 0, 3]);
  assert.equal(run.usage().completionTokens, 8);
  world.assertIdle();
});

test("an exit of the last cluster with a consensus skips the root at once", async () => {
  const slow: Script = { pieces: ["s", "l"], stepMs: 1e4 };
  const world = makeWorld({
    graph: { layers: [{ agents: [a, b, b] }, { agents: [a] }], early_exit },
    models: ["a", "b"],
    script: ({ model }) => model === "a" ? slow : { pieces: ["42"], startMs: 5 },
    earlyExit: () => services({ policyOf: () => consenting(share(1), 2) }),
  });
  const { run, ms } = await played(world);
  assert.equal(ms, 5);
  assert.deepEqual(run.record().agents.map(({ state }) => state), ["cancelled", "done", "done", "cancelled"]);
  world.assertIdle();
});

test("the root is asked when too few agree, when nobody knows, and when the best answer will not do", async () => {
  const cases: [Consensus | undefined, Script | undefined, Partial<RunInput>, RegExp][] = [
    [share(0.5), undefined, {}, /too few/],
    [undefined, undefined, {}, /not known/],
    [share(NaN), undefined, {}, /too few/],
    [share(1, "nobody"), undefined, {}, /has no answer/],
    [share(1), { pieces: ["<think>x"] }, {}, /has no answer/],
    [share(1), { pieces: ["x"], finishReason: "length" }, {}, /was cut/],
    [share(1), undefined, { rootSampling: { max_tokens: 2 } }, /max_tokens/],
    [share(1), undefined, { rootSampling: { stop: ["ty"] } }, /stop string/],
    [
      share(1),
      undefined,
      { rootSampling: { extra: { response_format: { type: "json_object" } } } },
      /response_format/,
    ],
    [share(1), undefined, { rootSampling: { extra: { tools: [] } } }, /tools/],
    [share(1), undefined, { rootLogprobs: 0 }, /log-probabilities/],
    [share(1), undefined, { choices: 2 }, /2 choices/],
  ];
  for (const [consensus, script, input, reason] of cases) {
    const world = skipWorld(consenting(consensus), script === undefined ? {} : { b: script });
    const { run, decided } = await played(world, input);
    assert.equal(decided?.data?.["skip"], false);
    assert.match(String(decided?.data?.["reason"]), reason);
    assert.equal(run.record().rootSkipped, false);
    assert.equal(run.record().agents.at(-1)?.text, "root text");
    world.assertIdle();
  }
});

test("limits that the answer keeps to, and how tokens are drawn, do not ask for the root", async () => {
  const world = skipWorld(consenting(share(1)));
  const rootSampling = { max_tokens: 3, stop: ["zzz"], temperature: 0, seed: 1, top_p: 0.5 };
  const { run } = await played(world, { rootSampling });
  assert.ok(run.record().rootSkipped);
});

test("only the cluster that the root reads can make it needless, and only where that is allowed", async () => {
  const graphs = [
    { layers: [{ agents: [b, b] }, { agents: [a] }], early_exit: { metric: "agreement" } },
    {
      layers: [{ clusters: 2, agents: [b, b] }, { agents: [b, b], early_exit: { metric: "none" } }, {
        agents: [a],
      }],
      early_exit,
    },
    { layers: [{ agents: [b] }, { agents: [a] }], early_exit },
  ];
  for (const graph of graphs) {
    const { run } = await played(skipWorld(consenting(share(1)), { graph }));
    assert.equal(run.record().rootSkipped, false);
    assert.equal(run.record().agents.at(-1)?.text, "root text");
  }
});

test("the consensus is waited for up to the deadline, not longer", async () => {
  const scorer = new FakeScorer();
  const world = skipWorld(consenting(share(1), Infinity, true), { scorer });
  scorer.compare = async () => {
    await world.clock.sleep(100);
    return similarity(0.9);
  };
  assert.ok((await played(world)).run.record().rootSkipped);
  assert.deepEqual(scorer.left, []);

  const late = new FakeScorer(() => new Promise(() => {}));
  const waiting = skipWorld(consenting(share(1), Infinity, true), { scorer: late });
  const { run, decided, ms } = await played(waiting);
  assert.equal(run.record().rootSkipped, false);
  assert.deepEqual([decided?.data?.["late"], decided?.data?.["incomplete"]], [true, true]);
  // 20 ms for the answers, 300 ms for the consensus, 10 ms for the root.
  assert.equal(ms, 330);
  assert.deepEqual(late.left, []);
  waiting.assertIdle();
});

test("a run that ends while its consensus is waited for leaves nothing behind", async () => {
  const scorer = new FakeScorer(() => new Promise(() => {}));
  const world = skipWorld(consenting(share(1), Infinity, true), { scorer });
  await world.clock.run(async () => {
    const run = world.start();
    const read = readAll(run);
    await world.clock.sleep(50);
    await run.cancel(new Error("enough"));
    await assert.rejects(read);
    assert.equal(run.record().state, "cancelled");
  });
  assert.deepEqual(scorer.left, []);
  world.assertIdle();
});
