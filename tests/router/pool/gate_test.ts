import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import type { Gate } from "../../../router/pool/gate.ts";
import { FakeEngine } from "../moa/fake_engine.ts";

const forever = new AbortController().signal;

function makeGate(workers: readonly string[]): { clock: VirtualClock; engine: FakeEngine; gate: Gate } {
  const clock = new VirtualClock();
  const engine = new FakeEngine(clock, () => ({ pieces: [] }), { workers, capacity: 1 });
  return { clock, engine, gate: engine.pool.gate };
}

test("a place that is given back goes to the lowest arrival, and among equals to the first", async () => {
  const { clock, gate } = makeGate(["w1"]);
  await clock.run(async () => {
    const order: string[] = [];
    const take = async (name: string, arrival: number, priority?: number) => {
      const lease = await gate.lease({ arrival, priority }, forever);
      order.push(name);
      await clock.sleep(1);
      lease.release("ok");
    };
    await Promise.all([
      take("now", 9),
      take("b", 2),
      take("a1", 1),
      take("urgent", 5, -1),
      take("c", 3),
      take("later", 0, 1),
      take("a2", 1),
    ]);
    assert.deepEqual(order, ["now", "urgent", "a1", "a2", "b", "c", "later"]);
  });
  assert.equal(clock.pendingTimers, 0);
});

test("one that waits for a certain worker does not hold up the others; nobody else is passed", async () => {
  const { clock, engine, gate } = makeGate(["w1", "w2"]);
  await clock.run(async () => {
    const first = await gate.lease({ arrival: 0 }, forever);
    const second = await gate.lease({ arrival: 1 }, forever);
    const picky = gate.lease({ arrival: 2, exclude: new Set(["w1"]) }, forever);
    const other = gate.lease({ arrival: 5 }, forever);
    let passed = false;
    const last = gate.lease({ arrival: 6, exclude: new Set(["w2"]) }, forever).then((lease) => {
      passed = true;
      return lease;
    });
    first.release("ok");
    const lease = await other;
    assert.equal(lease.workerId, "w1");
    second.release("ok");
    assert.equal((await picky).workerId, "w2");
    assert.equal(passed, false);
    assert.equal(engine.placed, 2);
    lease.release("ok");
    assert.equal((await last).workerId, "w1");
  });
});

test("waiting ends with the signal, and at once where no worker can ever be used", async () => {
  const { clock, gate } = makeGate(["w1"]);
  await clock.run(async () => {
    gate.leaseNow({});
    const controller = new AbortController();
    const waiting = gate.lease({ arrival: 0 }, controller.signal);
    await clock.sleep(10);
    const reason = new Error("enough");
    controller.abort(reason);
    await assert.rejects(waiting, reason);
    await assert.rejects(gate.lease({ arrival: 1 }, controller.signal), reason);
    const nowhere = gate.lease({ arrival: 2, exclude: new Set(["w1"]) }, forever);
    await assert.rejects(nowhere, { code: "no_worker" });
  });
  assert.equal(gate.waiting, 0);
  assert.equal(clock.pendingTimers, 0);
});

test("a warm has a place now or not at all, and none while others wait", async () => {
  const { clock, gate } = makeGate(["w1", "w2"]);
  await clock.run(async () => {
    gate.leaseNow({});
    const stays = gate.leaseNow({});
    assert.throws(() => gate.leaseNow({}), { code: "no_worker", status: 503, retryAfterSeconds: 1 });
    const waiting = gate.lease({ arrival: 0, exclude: new Set(["w1"]) }, forever);
    stays.release("ok");
    assert.equal((await waiting).workerId, "w2");
    const picky = gate.lease({ arrival: 1, exclude: new Set(["w1"]) }, forever);
    assert.throws(() => gate.leaseNow({ exclude: new Set(["w2"]) }), /1 requests wait for a place/);
    (await waiting).release("ok");
    await picky;
  });
});

test("a prompt counts as being read from its lease until it is read, or the place is given back", async () => {
  const { clock, gate } = makeGate(["w1", "w2"]);
  await clock.run(async () => {
    const read: string[] = [];
    gate.onPromptRead((workerId) => read.push(`${workerId} ${gate.reading(workerId)}`));
    const first = await gate.lease({ arrival: 0 }, forever);
    assert.equal(gate.reading("w1"), 1);
    first.promptRead();
    first.promptRead();
    assert.equal(gate.reading("w1"), 0);
    assert.deepEqual(read, ["w1 0"]);
    const warm = gate.leaseNow({});
    assert.equal(gate.reading("w2"), 0, "a warm's prompt is none");
    const second = gate.lease({ arrival: 1 }, forever);
    const third = gate.lease({ arrival: 2 }, forever);
    first.release("ok");
    (await second).release("ok");
    assert.deepEqual(read, ["w1 0", "w1 1"], "the next one has its place before warms hear of it");
    warm.release("ok");
    assert.deepEqual(read, ["w1 0", "w1 1"]);
    (await third).release("aborted");
    assert.deepEqual(read, ["w1 0", "w1 1", "w1 0"]);
  });
});
