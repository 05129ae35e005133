import assert from "node:assert/strict";
import { test } from "node:test";
import { loopPeriod } from "../../../../router/moa/agent/loops.ts";
import { makeWorld, readAll } from "../run_harness.ts";

const rows = (row: (index: number) => string) =>
  Array.from({ length: 200 }, (_, index) => row(index)).join("");

test("a text that ends in one piece again and again is a loop, whatever came before it", () => {
  assert.equal(loopPeriod(rows(() => "So we add 3. ")), 13);
  assert.equal(loopPeriod("First, a plan: we count them.\n" + rows(() => "Wait, let me check. No. ")), 24);
  assert.equal(loopPeriod("!".repeat(2_000)), 1);
});

test("what counts on, differs, is short, or is only space is no loop", () => {
  assert.equal(loopPeriod(rows((index) => `${index}, `)), undefined);
  assert.equal(loopPeriod(rows((index) => `| row ${index} | 0 | 0 | 0 |\n`)), undefined);
  assert.equal(loopPeriod("The same. ".repeat(100)), undefined);
  assert.equal(loopPeriod(" \n".repeat(2_000)), undefined);
  const long = rows((index) => `word${index * 7919 % 1000} `).slice(0, 700);
  assert.equal(loopPeriod(long.repeat(4)), undefined);
});

const loop = ["I count. ", ...Array.from({ length: 2_000 }, () => "And again: 3 and 4. ")];

function loopingWorld(graph: object) {
  return makeWorld({
    graph: { layers: [{ agents: [{ model: "a" }, { model: "b" }] }, { agents: [{ model: "b" }] }], ...graph },
    models: ["a", "b"],
    script: ({ model }) => model === "a" ? { pieces: loop, stepMs: 10 } : { pieces: ["ok"] },
  });
}

test("a leaf that repeats itself is ended with that reason, and its readers go on with what it has written", async () => {
  const world = loopingWorld({});
  await world.clock.run(async () => {
    const run = world.start();
    assert.deepEqual(await readAll(run), ["ok"]);
    await run.ended;
    const [leaf, other, root] = run.record().agents;
    assert.deepEqual([leaf?.state, leaf?.finishReason, other?.state, root?.state], [
      "done",
      "length",
      "done",
      "done",
    ]);
    assert.match(leaf?.endedFor ?? "", /repeated the same 20 characters/);
    assert.ok(world.clock.now() < 1_200, `${world.clock.now()}`);
    assert.equal(run.record().events.filter(({ type }) => type === "agent_looped").length, 1);
    assert.equal(leaf?.usage?.wastedTokens, 0);
  });
  world.assertIdle();
});

test("with end_loops false it writes on to its end", async () => {
  const world = loopingWorld({ end_loops: false });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    await run.ended;
    assert.equal(run.record().agents[0]?.finishReason, "stop");
    assert.equal(run.record().agents[0]?.endedFor, undefined);
  });
});
