import assert from "node:assert/strict";
import { test } from "node:test";
import { eventsOf, makeWorld, readAll, type World } from "../run_harness.ts";

/** A root alone, whose tokens come every 10 ms; telling its engine to stop takes 30 ms. */
function talkingWorld(): World {
  return makeWorld({
    graph: { layers: [{ agents: [{ model: "a" }] }] },
    abortMs: 30,
    script: () => ({ pieces: Array.from({ length: 100 }, (_, at) => `${at} `), stepMs: 10 }),
  });
}

test("a choice that has said enough counts as done, and its engine is stopped", async () => {
  const world = talkingWorld();
  await world.clock.run(async () => {
    const run = world.start();
    let text = "";
    for await (const event of run.output) {
      assert.equal(event.type, "delta");
      if (event.type === "delta") text += event.delta.text;
      if (text.endsWith("4 ")) run.satisfy(0);
    }
    assert.equal(text, "0 1 2 3 4 ");
    assert.equal(run.record().state, "done", "the output does not wait for the engine to be told");
    assert.deepEqual(run.usage().wastedTokens, 0);
    assert.equal(run.usage().completionTokens, 5);
    await run.ended;
    assert.equal(world.clock.now(), 40 + 30);
    world.assertIdle();
    const { agents, error, events } = run.record();
    assert.deepEqual(
      agents.map((agent) => [agent.state, agent.finishReason, agent.error, agent.text]),
      [["done", "stop", undefined, "0 1 2 3 4 "]],
    );
    assert.equal(error, undefined);
    assert.deepEqual(events.at(-1)?.type, "run_done");
    assert.equal(world.engines.get("a")!.calls[0]!.outcome, "aborted");
  });
});

test("the other choices go on when one has said enough", async () => {
  const world = talkingWorld();
  await world.clock.run(async () => {
    const run = world.start({ choices: 2 });
    const texts = ["", ""];
    for await (const event of run.output) {
      if (event.type === "delta") texts[event.index] += event.delta.text;
      if (texts[1] === "0 1 ") run.satisfy(1);
    }
    assert.equal(texts[0]!.trim().split(" ").length, 100);
    assert.equal(texts[1], "0 1 ");
    await run.ended;
    const { state, usage } = run.record();
    assert.equal(state, "done");
    assert.equal(usage.completionTokens, 102);
    assert.equal(usage.wastedTokens, 0);
  });
  world.assertIdle();
});

test("what cannot be enough changes nothing: no such choice, nothing said yet, an ended run", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [{ model: "a" }] }, { agents: [{ model: "a" }] }] },
    script: () => ({ pieces: ["x", "y"], startMs: 50 }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    run.satisfy(0);
    run.satisfy(7);
    await world.clock.sleep(60);
    run.satisfy(0);
    assert.deepEqual(await readAll(run), ["xy"]);
    run.satisfy(0);
    await run.ended;
    assert.equal(run.record().state, "done");
    assert.equal(run.record().usage.completionTokens, 4);
    world.moa.get(run.id)!.satisfy(0);
    const next = world.start();
    const events = eventsOf(next);
    await next.cancel(new Error("enough"));
    next.satisfy(0);
    await assert.rejects(events, /enough/);
    assert.equal(next.record().state, "cancelled");
  });
});

test("a choice may have said enough while its reader is slow", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [{ model: "a" }] }] },
    script: () => ({ pieces: Array.from({ length: 500 }, () => "x") }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    await world.clock.sleep(10);
    run.satisfy(0);
    await run.ended;
    assert.equal(run.record().state, "done");
    assert.ok((await readAll(run))[0]!.length >= 64, "what was said can still be read");
  });
  world.assertIdle();
});
