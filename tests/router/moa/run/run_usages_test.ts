import assert from "node:assert/strict";
import { test } from "node:test";
import { byModel } from "../../../../router/http/metrics/by_model.ts";
import { brokenWorker, type Script } from "../fake_engine.ts";
import { makeWorld, readAll } from "../run_harness.ts";

/** A leaf whose model fails, so that a dearer one writes in its place, and a root of that one; every piece is a token. */
function fallingBack(own: (workerId: string) => Script) {
  return makeWorld({
    graph: { layers: [{ agents: [{ model: "own" }] }, { agents: [{ model: "spare" }] }] },
    models: ["own", "spare"],
    fieldsOf: {
      own: { price: { prompt: 0, completion: 1e6 }, fallback: ["spare"] },
      spare: { price: { prompt: 0, completion: 1e8 } },
    },
    script: ({ model, prompt, workerId }) =>
      model === "own"
        ? own(workerId)
        : { pieces: prompt.startsWith("Final") ? ["so"] : ["it ", "is ", "so"] },
  });
}

test("what an agent's own model wrote before another one took its place has that model's price, and stays its work", async () => {
  const pieces = Array.from({ length: 10 }, () => "x");
  const world = fallingBack((worker) => ({
    pieces,
    failAt: { piece: worker === "w1" ? 6 : 0, error: brokenWorker(worker) },
  }));
  await world.clock.run(async () => {
    const run = world.start({ budget: { latencyMs: undefined, tokens: 1e6, cost: 1e6 } });
    await readAll(run);
    await run.ended;
    const { agents: [leaf] } = run.record();
    assert.deepEqual([leaf?.fallback?.model, leaf?.restarts], ["spare", 1]);
    const { model, calls, completionTokens, wastedTokens } = leaf!.usage!;
    assert.deepEqual([model, calls, completionTokens, wastedTokens], ["spare", 3, 9, 6]);
    const usage = run.usage();
    const models = byModel(usage.parts);
    const facts = ["own", "spare"].map((name) => {
      const { calls, completionTokens, wastedTokens, cost } = models.get(name)!;
      return [calls, completionTokens, wastedTokens, cost];
    });
    assert.deepEqual(facts, [[2, 6, 6, 6], [2, 4, 0, 400]]);
    assert.deepEqual([usage.agents.map(({ cost }) => cost), usage.cost, usage.spent?.cost], [
      [306, 100],
      406,
      406,
    ]);
    assert.equal(usage.spent?.tokens, usage.promptTokens + usage.completionTokens);
  });
  world.assertIdle();
});

test("an attempt at another model that read nothing is not counted with an estimate of its prompt", async () => {
  const world = fallingBack((worker) => ({ pieces: [], failAt: { piece: 0, error: brokenWorker(worker) } }));
  await world.clock.run(async () => {
    const run = world.start({ budget: { latencyMs: undefined, tokens: 1e6, cost: undefined } });
    await readAll(run);
    await run.ended;
    const { promptTokens, completionTokens, calls, spent } = run.usage();
    assert.deepEqual([promptTokens, completionTokens, calls, spent?.tokens], [20, 4, 4, 24]);
  });
});

test("what an attempt has read is counted, though the answer is begun anew elsewhere", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [{ model: "a" }] }, { agents: [{ model: "a" }] }] },
    modelFields: { price: { prompt: 1e6, cached: 5e5, completion: 1e6 } },
    script: ({ prompt, workerId }) => ({
      pieces: ["who", "le"],
      promptTokens: 10,
      tokensPerPiece: 1,
      ...(prompt.startsWith("Final") || workerId !== "w1"
        ? {}
        : { failAt: { piece: 1, error: brokenWorker("w1") } }),
    }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    await run.ended;
    const { agents: [leaf] } = run.record();
    assert.equal(leaf?.restarts, 1);
    const { calls, promptTokens, cachedTokens, completionTokens, wastedTokens } = leaf!.usage!;
    assert.deepEqual([calls, promptTokens, completionTokens, wastedTokens], [2, 20, 3, 1]);
    assert.equal(cachedTokens, 4);
    assert.deepEqual(run.usage().agents.map(({ cost }) => cost), [21, 12]);
  });
  world.assertIdle();
});
