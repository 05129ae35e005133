import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { PlaceQueue } from "../../../router/pool/place_queue.ts";
import { FakeEngine } from "../moa/fake_engine.ts";

const forever = new AbortController().signal;

function makeQueue(workers: readonly string[]) {
  const clock = new VirtualClock();
  const engine = new FakeEngine(clock, () => ({ pieces: [] }), { workers, capacity: 1 });
  return { clock, engine, queue: new PlaceQueue(engine, clock) };
}

test("a place that is given back goes to the lowest rank, and among equals to the first", async () => {
  const { clock, queue } = makeQueue(["w1"]);
  await clock.run(async () => {
    const order: string[] = [];
    const take = async (name: string, rank: number) => {
      const place = await queue.place({}, rank, forever);
      order.push(name);
      await clock.sleep(1);
      queue.release(place, "ok");
    };
    await Promise.all([take("now", 9), take("b", 2), take("a1", 1), take("c", 3), take("a2", 1)]);
    assert.deepEqual(order, ["now", "a1", "a2", "b", "c"]);
  });
  assert.equal(clock.pendingTimers, 0);
});

test("one that waits for a certain worker does not hold up the others", async () => {
  const { clock, engine, queue } = makeQueue(["w1", "w2"]);
  await clock.run(async () => {
    const first = await queue.place({}, 0, forever);
    const second = await queue.place({}, 0, forever);
    const picky = queue.place({ exclude: new Set(["w1"]) }, 0, forever);
    const other = queue.place({}, 5, forever);
    queue.release(first, "ok");
    assert.equal((await other).workerId, "w1");
    queue.release(second, "ok");
    assert.equal((await picky).workerId, "w2");
    assert.equal(engine.placed, 2);
  });
});

test("places that others give back are found, too", async () => {
  const { clock, engine, queue } = makeQueue(["w1"]);
  await clock.run(async () => {
    const foreign = engine.place({});
    const waiting = queue.place({}, 0, forever);
    await clock.sleep(1000);
    assert.equal(queue.waiting, 1);
    foreign.release("ok");
    assert.equal((await waiting).workerId, "w1");
  });
  assert.equal(clock.pendingTimers, 0);
});

test("waiting ends with the signal, and at once where no worker can ever be used", async () => {
  const { clock, engine, queue } = makeQueue(["w1"]);
  await clock.run(async () => {
    engine.place({});
    const controller = new AbortController();
    const waiting = queue.place({}, 0, controller.signal);
    await clock.sleep(10);
    const reason = new Error("enough");
    controller.abort(reason);
    await assert.rejects(waiting, reason);
    await assert.rejects(queue.place({}, 0, controller.signal), reason);
    await assert.rejects(queue.place({ exclude: new Set(["w1"]) }, 0, forever), { code: "no_worker" });
  });
  assert.equal(queue.waiting, 0);
  assert.equal(clock.pendingTimers, 0);
});
