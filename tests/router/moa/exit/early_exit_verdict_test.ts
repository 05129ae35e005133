import assert from "node:assert/strict";
import { test } from "node:test";
import { billionParameters } from "../../../../router/moa/exit/model_sizes.ts";
import type { EngineError } from "../../../../router/worker/engine_error.ts";
import type { ExitPolicy, Verdict } from "../../../../scorer/policy/exit_policy.ts";
import { brokenWorker, type Script } from "../fake_engine.ts";
import { services } from "../fake_scorer.ts";
import { makeWorld, readAll, type World, type WorldOptions } from "../run_harness.ts";

const [slow, fast] = [{ model: "slow-70b" }, { model: "fast-8b" }];
const models = ["slow-70b", "judge-0.6b", "fast-8b"];
const yes = [{ token: "Yes", logprob: -0.2 }, { token: "No", logprob: -2 }];

/** Exits when the model says of the first two answers that they agree. */
function verdictPolicy(seen: (Verdict | undefined)[]): ExitPolicy {
  return {
    needs: { logprobs: false, similarity: undefined, verdicts: true },
    wants: () => ({ similarities: [], verdicts: [[0, 1]] }),
    decide: ({ completions }, evidence) => {
      const verdict = evidence.verdict([0, 1]);
      seen.push(verdict);
      return {
        exit: (verdict?.yes ?? 0) > 0.5,
        keep: completions.map(({ agent }) => agent),
        consensus: undefined,
        numbers: {},
      };
    },
  };
}

function judged(
  judge: Script | ((prompt: string) => Script),
  early_exit: Record<string, unknown> = {},
  more: Partial<WorldOptions> = {},
): { world: World; seen: (Verdict | undefined)[] } {
  const seen: (Verdict | undefined)[] = [];
  const world = makeWorld({
    graph: {
      layers: [{ agents: [fast, fast, slow] }, { agents: [fast] }],
      early_exit: { metric: "verdict", ...early_exit },
    },
    models,
    script: ({ model, prompt }) => {
      if (model === "slow-70b") return { pieces: ["s", "t"], stepMs: 1000 };
      if (model === "judge-0.6b") return typeof judge === "function" ? judge(prompt) : judge;
      return { pieces: ["f", "g"], startMs: 10 };
    },
    capabilities: { logprobs: true },
    earlyExit: () => services({ policyOf: () => verdictPolicy(seen) }),
    ...more,
  });
  return { world, seen };
}

test("a verdict is one token of the smallest model, asked like any call and counted under its own name", async () => {
  const { world, seen } = judged({
    pieces: ["Yes"],
    startMs: 5,
    logprob: -0.2,
    top: yes,
    promptTokens: 90,
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.equal(world.clock.now(), 25);
    assert.equal(run.record().exits[0]?.ms, 5);
    const own = run.usage().agents.find(({ agent }) => agent === "l1.c1.verdict");
    assert.deepEqual([own?.model, own?.calls, own?.promptTokens, own?.completionTokens], [
      "judge-0.6b",
      1,
      90,
      1,
    ]);
    assert.equal(run.usage().calls, 5);
    assert.ok(run.record().agents.every(({ id }) => id !== "l1.c1.verdict"), "it is no agent of the graph");
    await run.ended;
  });
  const [call, ...others] = world.engines.get("judge-0.6b")!.calls;
  assert.equal(others.length, 0);
  assert.deepEqual([call?.request.sampling, call?.request.logprobs], [{ max_tokens: 1, temperature: 0 }, 10]);
  const probability = Math.exp(-0.2) / (Math.exp(-0.2) + Math.exp(-2));
  assert.ok(Math.abs((seen[0]?.yes ?? 0) - probability) < 1e-9);
  world.assertIdle();
});

test("where an engine gives no alternatives the one token says yes or no", async () => {
  for (const [reply, yes] of [["Yes", 1], [" no", 0], ["Well", undefined]] as const) {
    const { world, seen } = judged({ pieces: [reply], startMs: 5, logprob: -0.2 }, {}, {
      capabilities: { logprobs: true, topLogprobs: false },
    });
    await world.clock.run(async () => void await readAll(world.start()));
    assert.deepEqual(world.engines.get("judge-0.6b")!.calls.map(({ request }) => request.logprobs), [0]);
    assert.equal(seen[0]?.yes, yes);
  }
});

test("with swap the answers are also shown the other way round, and both verdicts must agree", async () => {
  let asked = 0;
  const no = [{ token: "No", logprob: -0.1 }, { token: "Yes", logprob: -3 }];
  const { world, seen } = judged(
    () => ({ pieces: ["x"], startMs: 5, top: ++asked === 1 ? yes : no }),
    { verdict: { swap: true } },
  );
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    assert.equal(run.usage().agents.find(({ agent }) => agent === "l1.c1.verdict")?.calls, 2);
    await run.ended;
  });
  assert.equal(asked, 2);
  assert.ok((seen[0]?.yes ?? 1) < 0.1);
  world.assertIdle();
});

test("a named model judges", async () => {
  const { world, seen } = judged({ pieces: [] }, { verdict: { model: "fast-8b" } });
  await world.clock.run(async () => void await readAll(world.start()));
  assert.equal(seen[0]?.model, "fast-8b");
});

test("a verdict that cannot be had leaves the cluster waiting, with the reason", async () => {
  const refused: EngineError = brokenWorker("w1", "no such model");
  const cases: [Script, Partial<WorldOptions>, RegExp, boolean][] = [
    [{ pieces: ["Yes"], startMs: 900, top: yes }, {}, /deadline of 200 ms/, true],
    [{ pieces: [], failAt: { piece: 0, error: refused } }, {}, /no such model/, false],
    [{ pieces: ["Yes"], hangAt: 0 }, {}, /deadline of 200 ms/, true],
    [{ pieces: [] }, {}, /no log-probabilities/, false],
    [{ pieces: ["Perhaps"], top: [{ token: "Perhaps", logprob: 0 }] }, {}, /"Perhaps"/, false],
    [{ pieces: ["Yes"], top: yes.map(({ token }) => ({ token, logprob: NaN })) }, {}, /"Yes"/, false],
    [{ pieces: ["Yes"], top: yes }, { capabilities: { logprobs: false } }, /no log-probabilities/, false],
  ];
  for (const [judge, more, reason, late] of cases) {
    const { world, seen } = judged(judge, { verdict: { deadline_ms: 200 } }, more);
    await world.clock.run(async () => {
      const run = world.start();
      await readAll(run);
      assert.ok(world.clock.now() >= 1000, "it has not waited");
      assert.deepEqual(run.record().exits.map(({ exit, late }) => [exit, late]), [[false, late]]);
      await run.ended;
    }, { limitMs: 1e13 });
    assert.match(seen[0]?.reason ?? "", reason);
    world.assertIdle();
  }
});

test("a verdict that nobody needs any more is aborted with its run, or when its cluster closes", async () => {
  for (const leave of [true, false]) {
    const { world } = judged({ pieces: ["Yes"], hangAt: 0 }, { verdict: { deadline_ms: 1e6 } }, {
      abortMs: 7,
    });
    await world.clock.run(async () => {
      const run = world.start();
      if (leave) {
        await world.clock.sleep(20);
        await run.cancel(new Error("enough"));
        assert.equal(world.clock.now(), 27, "the run ends when the engine knows");
      } else await readAll(run);
      await run.ended;
      assert.equal(world.engines.get("judge-0.6b")!.active, 0);
    });
    world.assertIdle();
  }
});

test("parameters are read from model names", () => {
  const cases: [string, number | undefined][] = [
    ["Qwen/Qwen3-VL-4B-Instruct", 4],
    ["Qwen/Qwen3-0.6B", 0.6],
    ["google/gemma-3-270m-it", 0.27],
    ["mistralai/Mixtral-8x7B-Instruct-v0.1", 56],
    ["Qwen/Qwen3-235B-A22B", 235],
    ["llama3.2:3b", 3],
    ["sim-32b", 32],
    ["gpt-4o", undefined],
    ["some/model", undefined],
    ["a4bb", undefined],
  ];
  for (const [name, billions] of cases) assert.equal(billionParameters(name), billions, name);
});
