import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import { RunStore } from "../../../../router/moa/record/run_store.ts";
import { EndedRun } from "../../../../router/moa/run/ended_run.ts";
import { makeWorld, readAll } from "../run_harness.ts";

const agent = { model: "a" };

async function ended(text: string): Promise<RunRecord> {
  const world = makeWorld({ graph: { layers: [{ agents: [agent] }] }, script: () => ({ pieces: [text] }) });
  return await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    await run.ended;
    return run.record();
  });
}

test("the oldest runs go when there are too many, or when their texts are too long", async () => {
  const record = await ended("x".repeat(100));
  const store = new RunStore(2, 350);
  const add = (id: string) => store.add({ ...record, id });
  ["1", "2", "3"].forEach(add);
  assert.deepEqual(store.records().map(({ id }) => id), ["3", "2"]);
  assert.equal(store.get("1"), undefined);
  store.add({ ...(await ended("x".repeat(300))), id: "long" });
  assert.deepEqual(store.records().map(({ id }) => id), ["long"]);
  store.add({ ...(await ended("x".repeat(400))), id: "too long" });
  assert.deepEqual(store.records(), []);
});

test("what was asked counts among the texts of a run", async () => {
  const record = await ended("x");
  const store = new RunStore(2, 350);
  const messages = [{ role: "user", content: "x".repeat(400) }];
  const request = {
    path: "/v1/chat/completions",
    body: { model: "moa", messages },
    seed: undefined,
  } as const;
  store.add({ ...record, id: "short" });
  store.add({ ...record, id: "long", request });
  assert.deepEqual(store.records(), []);
});

test("a store of no runs keeps none", async () => {
  const store = new RunStore(0);
  store.add(await ended("x"));
  assert.deepEqual(store.records(), []);
});

test("an ended run gives its record and its events, and no output", async () => {
  const record = await ended("x");
  const store = new RunStore(1);
  store.add(record);
  const run = new EndedRun(store.get(record.id)!);
  assert.deepEqual(run.usage(), record.usage);
  const events = [];
  for await (const event of run.events(new AbortController().signal)) events.push(event);
  assert.deepEqual(events, record.events);
  assert.deepEqual(await readAll(run), []);
});

test("a listing has running runs first, long texts cut, and prompts left out", async () => {
  let hang = false;
  const world = makeWorld({
    graph: { layers: [{ agents: [agent] }] },
    maxRunsKept: 2,
    script: () => ({ pieces: ["x".repeat(1000)], ...(hang ? { hangAt: 1 } : {}) }),
  });
  await world.clock.run(async () => {
    const done: string[] = [];
    for (let i = 0; i < 3; i++) {
      const run = world.start();
      done.push(run.id);
      await readAll(run);
    }
    hang = true;
    const live = world.start();
    await world.clock.sleep(1);
    const list = world.moa.list();
    assert.deepEqual(list.map(({ id }) => id), [live.id, done[2], done[1]]);
    assert.ok(
      list.every(({ agents }) =>
        agents.every(({ text, prompt }) => text.length === 400 && prompt === undefined)
      ),
    );
    assert.equal(world.moa.get(done[1]!)?.record().agents[0]?.text.length, 1000);
    assert.equal(world.moa.get(live.id), live);
    await live.cancel(new Error("enough"));
  });
});

test("where nothing is to be kept, a run that has ended is known no more; whoever records it is told of each", async () => {
  for (const keep of [true, false]) {
    const recorded: string[] = [];
    const world = makeWorld({
      graph: { layers: [{ agents: [agent] }] },
      records: { keep },
      onRunKept: ({ id }) => void recorded.push(id),
      script: () => ({ pieces: ["x"] }),
    });
    await world.clock.run(async () => {
      const run = world.start();
      assert.equal(world.moa.get(run.id), run);
      await readAll(run);
      await run.ended;
      assert.equal(world.moa.list().length, keep ? 1 : 0);
      assert.equal(world.moa.get(run.id) === undefined, !keep);
      assert.deepEqual(recorded, [run.id]);
    });
  }
});
