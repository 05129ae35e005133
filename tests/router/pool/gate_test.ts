import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import { modelSchema } from "../../../cfgs/schema/config.ts";
import { Gate } from "../../../router/pool/gate.ts";
import type { Claim } from "../../../router/pool/placer.ts";
import { fullError } from "../../../router/pool/refusals.ts";
import { ThreadCells } from "../../../router/threads/thread_cells.ts";
import { createPool } from "../../../router/pool/create_pool.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
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

test("when the first in line goes, those behind it are looked at", async () => {
  const { clock, gate } = makeGate(["w1"]);
  await clock.run(async () => {
    gate.leaseNow({});
    const gone = new AbortController();
    const first = gate.lease({ arrival: 0 }, gone.signal);
    const nowhere = gate.lease({ arrival: 1, exclude: new Set(["w1"]) }, forever);
    assert.equal(gate.waiting, 2);
    gone.abort(new Error("enough"));
    await assert.rejects(first, /enough/);
    await assert.rejects(nowhere, { code: "no_worker" });
  });
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
    const now = gate.leaseNow({}, { reads: true });
    assert.equal(gate.reading(now.workerId), 1, "a prompt that cannot wait is one nevertheless");
    now.release("ok");
    assert.equal(gate.reading(now.workerId), 0);
  });
});

/** A pool whose workers answer health checks as told. */
function makePool(config: Record<string, unknown>) {
  const clock = new VirtualClock();
  const ill = new Set<string>();
  const transport = new MemoryTransport((request) => () =>
    Promise.resolve({
      status: ill.has(new URL(request.url).host) ? 503 : 200,
      headers: {},
      body: (async function* () {})(),
    })
  );
  const parsed = modelSchema.parse({ model: "org/m", engine: "vllm", max_in_flight: 1, ...config });
  const random = new Random("gate");
  const pool = createPool({ model: "m", config: parsed, clock, random, transport, log: logger("test") });
  return { clock, ill, pool, gate: pool.gate };
}

test("those who wait have a place in the moment in which a breaker lets a probe through", async () => {
  const { clock, pool, gate } = makePool({
    workers: ["http://a", "http://b"],
    breaker: { failures: 1, open_ms: 5_000 },
  });
  await clock.run(async () => {
    const failing = gate.leaseNow({});
    const busy = await gate.lease({ arrival: 0 }, forever);
    await clock.sleep(70);
    failing.release("failed");
    const waiting = gate.lease({ arrival: 1 }, forever);
    const next = gate.lease({ arrival: 2 }, forever);
    assert.equal((await waiting).workerId, failing.workerId);
    assert.equal(clock.now(), 5_070);
    assert.equal(pool.workers().find(({ id }) => id === failing.workerId)?.breaker, "half_open");
    assert.equal(gate.waiting, 1, "one probe at a time");
    busy.release("ok");
    assert.equal((await next).workerId, busy.workerId);
  });
  assert.equal(clock.pendingTimers, 0);
});

test("those who wait have a place when a worker comes back or joins, and are refused when the last one goes", async () => {
  const { clock, ill, pool, gate } = makePool({
    workers: ["http://a"],
    health: { interval_ms: 1_000, failures: 1, successes: 1 },
  });
  const life = new AbortController();
  await clock.run(async () => {
    pool.start(life.signal);
    await clock.sleep(10);
    const first = gate.leaseNow({});
    const joins = gate.lease({ arrival: 0 }, forever);
    const b = pool.addWorker({ url: "http://b" });
    assert.equal((await joins).workerId, b);
    pool.setDraining(b, true);
    (await joins).release("ok");
    const drained = gate.lease({ arrival: 1 }, forever);
    assert.equal(gate.waiting, 1);
    pool.setDraining(b, false);
    assert.equal((await drained).workerId, b);
    pool.setDown(b, "it was killed");
    (await drained).release("ok");
    const restarted = gate.lease({ arrival: 2 }, forever);
    assert.equal(gate.waiting, 1);
    pool.setDown(b, undefined);
    assert.equal((await restarted).workerId, b);
    ill.add("b");
    await clock.sleep(2_000);
    (await restarted).release("ok");
    const recovered = gate.lease({ arrival: 3 }, forever);
    assert.equal(gate.waiting, 1);
    ill.delete("b");
    assert.equal((await recovered).workerId, b);
    const refused = assert.rejects(gate.lease({ arrival: 4 }, forever), { code: "no_worker" });
    pool.removeWorker(b);
    assert.equal(gate.waiting, 1);
    pool.removeWorker(first.workerId);
    await refused;
    life.abort();
  }, { limitMs: 60_000 });
});

test("half a pair that is given back early opens its window for the next in line", async () => {
  const pair = { prefill: "http://p", decode: "http://d" };
  const { clock, gate } = makePool({
    engine: "sglang-pd",
    workers: [pair],
    pair_window: 1,
    max_in_flight: 9,
  });
  await clock.run(async () => {
    const first = await gate.lease({ arrival: 0 }, forever);
    const second = gate.lease({ arrival: 1 }, forever);
    assert.equal(gate.waiting, 1);
    assert.equal(gate.reading(first.home), 1);
    first.release("ok", "prefill");
    await second;
    assert.equal(clock.now(), 0);
    assert.equal(gate.reading(first.home), 1, "the second one's prompt");
  });
});

test("a place goes to whoever has waited longest, whatever his thread: nobody who comes now is before him", async () => {
  const clock = new VirtualClock();
  const memory = ThreadCells.allocate(3);
  const gates: Gate[] = [];
  let free = 1;
  const place = (): Claim => {
    if (free === 0) throw fullError("m", "its worker is full");
    free--;
    let held = true;
    return {
      workerId: "w1",
      url: "http://w1",
      promptRead: () => {},
      release: () => {
        if (!held) return false;
        held = false;
        free++;
        return true;
      },
    };
  };
  for (const thread of [1, 2]) {
    const others = () => gates.forEach((gate, at) => at + 1 === thread || queueMicrotask(() => gate.wake()));
    const cells = new ThreadCells(memory, { thread, threads: 3, onPass: others });
    gates.push(new Gate({ model: "m", clock, place, queue: cells.queue(0) }));
  }
  const [one, other] = gates;
  await clock.run(async () => {
    const order: string[] = [];
    const take = async (gate: Gate | undefined, name: string) => {
      const lease = await gate!.lease({ arrival: 0 }, forever);
      order.push(name);
      return lease;
    };
    const first = await take(one, "first");
    const waiting = take(other, "waiting");
    first.release("ok");
    const late = take(one, "late");
    (await waiting).release("ok");
    (await late).release("ok");
    assert.deepEqual(order, ["first", "waiting", "late"]);
  }, { limitMs: 1_000 });
  assert.deepEqual([free, one?.waiting, other?.waiting], [1, 0, 0]);
});
