import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import { brokenWorker } from "../fake_engine.ts";
import { errorOf, makeWorld, readAll, type World } from "../run_harness.ts";

const agent = { model: "a" };
const tree = {
  layers: [{ clusters: 3, agents: [agent, agent, agent] }, { agents: [agent, agent, agent] }, {
    agents: [agent],
  }],
};

function slowWorld(): World {
  return makeWorld({
    graph: tree,
    abortMs: 30,
    script: () => ({ pieces: ["x", "y"], startMs: 50, stepMs: 50 }),
  });
}

// Each layer takes 150 ms: its first token comes after 50, its end after 150.
for (
  const [phase, atMs] of [
    ["before any token", 20],
    ["while the first layer decodes", 80],
    ["while the second layer waits for its first token", 170],
    ["while the root streams", 370],
  ] as const
) {
  test(`a run cancelled ${phase} leaves every engine idle`, async () => {
    const world = slowWorld();
    await world.clock.run(async () => {
      const run = world.start();
      const error = errorOf(run);
      await world.clock.sleep(atMs);
      assert.ok(world.engines.get("a")!.active > 0);
      await run.cancel(new Error("enough"));
      assert.equal(world.clock.now(), atMs + 30, "cancel resolves when the engines were told");
      world.assertIdle();
      assert.match(String(await error), /cancelled: enough/);
      const record = run.record();
      assert.equal(record.state, "cancelled");
      assert.equal(record.durationMs, atMs);
      assert.equal(
        record.usage.wastedTokens,
        record.agents.reduce(
          (sum, { state, usage }) => sum + (state === "cancelled" ? usage?.completionTokens ?? 0 : 0),
          0,
        ),
      );
      for (const call of world.engines.get("a")!.calls) assert.ok(["ok", "aborted"].includes(call.outcome!));
    });
  });
}

test("a run whose client has gone is cancelled", async () => {
  const world = slowWorld();
  await world.clock.run(async () => {
    const client = new AbortController();
    const run = world.start({}, client.signal);
    const error = errorOf(run);
    await world.clock.sleep(60);
    client.abort();
    await run.ended;
    assert.equal(run.record().state, "cancelled");
    assert.ok(CanopyError.is(await error));
  });
  world.assertIdle();
});

test("a client that has gone before the start costs no call", async () => {
  const world = slowWorld();
  await world.clock.run(async () => {
    const run = world.start({}, AbortSignal.abort());
    await run.ended;
    assert.equal(run.record().state, "cancelled");
  });
  assert.equal(world.engines.get("a")!.calls.length, 0);
});

test("a reader that stops in the middle cancels the run; one that has seen the last event does not", async () => {
  for (const stopAtEnd of [false, true]) {
    const world = slowWorld();
    await world.clock.run(async () => {
      const run = world.start();
      for await (const event of run.output) if (event.type === (stopAtEnd ? "end" : "delta")) break;
      assert.equal(run.record().state, stopAtEnd ? "done" : "cancelled");
      world.assertIdle();
    });
  }
});

test("a cancelled run whose client does not read is not stuck in the full output", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [agent] }] },
    script: () => ({ pieces: Array.from({ length: 500 }, () => "x"), stepMs: 1 }),
  });
  await world.clock.run(async () => {
    const run = world.start({ choices: 2 });
    await world.clock.sleep(2000);
    await run.cancel(new Error("enough"));
  });
  world.assertIdle();
});

test("a run can be cancelled between two attempts and while it waits for a place", async () => {
  const retrying = makeWorld({
    graph: tree,
    script: ({ workerId }) => ({ pieces: [], failAt: { piece: 0, error: brokenWorker(workerId) } }),
  });
  await retrying.clock.run(async () => {
    const run = retrying.start();
    await retrying.clock.sleep(1);
    await run.cancel(new Error("enough"));
    assert.equal(retrying.engines.get("a")!.calls.length, 9);
  });
  retrying.assertIdle();

  const full = makeWorld({
    graph: tree,
    workers: ["w1"],
    capacity: 2,
    script: () => ({ pieces: [], hangAt: 0 }),
  });
  await full.clock.run(async () => {
    const run = full.start();
    await full.clock.sleep(1000);
    await run.cancel(new Error("enough"));
    assert.equal(full.engines.get("a")!.calls.length, 2);
  });
  full.assertIdle();
});

test("cancelling an ended run changes nothing", async () => {
  const world = slowWorld();
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    await run.cancel(new Error("late"));
    assert.equal(run.record().state, "done");
    await world.moa.get(run.id)!.cancel(new Error("later"));
  });
});
