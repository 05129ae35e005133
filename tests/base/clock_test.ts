import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../properties.ts";
import { deadlineSignal, SystemClock, unixSeconds, VirtualClock } from "../../base/clock.ts";

test("VirtualClock fires timers by due time, and equal ones in the order they were set", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 20 }), { maxLength: 60 }), async (delays) => {
      const clock = new VirtualClock();
      const fired: [number, number][] = [];
      await clock.run(async () => {
        await Promise.all(delays.map(async (ms, index) => {
          await clock.sleep(ms);
          assert.equal(clock.now(), ms);
          fired.push([ms, index]);
        }));
      });
      const expected = delays.map((ms, index): [number, number] => [ms, index])
        .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      assert.deepEqual(fired, expected);
    }),
    { numRuns: 60 },
  );
});

test("VirtualClock takes no real time for hours of sleep", async () => {
  const clock = new VirtualClock();
  await clock.run(async () => {
    for (let hour = 0; hour < 100; hour++) await clock.sleep(3_600_000);
  });
  assert.equal(clock.now(), 360_000_000);
  assert.equal(unixSeconds(clock), 1_700_000_000 + 360_000);
});

test("VirtualClock lets every promise settle before time moves on", async () => {
  const clock = new VirtualClock();
  const events: string[] = [];
  await clock.run(async () => {
    const later = clock.sleep(1).then(() => events.push("timer"));
    for (let turn = 0; turn < 1000; turn++) await undefined;
    events.push("promises");
    await later;
  });
  assert.deepEqual(events, ["promises", "timer"]);
});

test("VirtualClock gives a sleep of 0 or less a turn of its own without moving the time", async () => {
  const clock = new VirtualClock();
  await clock.run(async () => {
    await clock.sleep(0);
    await clock.sleep(-5);
  });
  assert.equal(clock.now(), 0);
});

test("VirtualClock names a deadlock and the time at which it happened", async () => {
  const clock = new VirtualClock();
  await assert.rejects(
    clock.run(async () => {
      await clock.sleep(25);
      await new Promise(() => {});
    }),
    /stopped at 25 ms: the program waits and no timer is set/,
  );
});

test("VirtualClock takes an endless sleep for a deadlock, and lets a signal end it", async () => {
  const clock = new VirtualClock();
  await assert.rejects(clock.run(() => clock.sleep(Infinity)), /no timer is set/);
  const controller = new AbortController();
  await clock.run(async () => {
    const endless = assert.rejects(clock.sleep(Infinity, controller.signal), /enough/);
    await clock.sleep(3);
    controller.abort(new Error("enough"));
    await endless;
  });
  assert.equal(clock.pendingTimers, 0);
});

test("VirtualClock stops at its limit", async () => {
  const clock = new VirtualClock();
  await assert.rejects(clock.run(() => clock.sleep(1001), { limitMs: 1000 }), /limit of 1000 ms/);
});

test("VirtualClock passes on the value and the error of the program", async () => {
  const clock = new VirtualClock();
  assert.equal(await clock.run(() => Promise.resolve(42)), 42);
  await assert.rejects(clock.run(() => Promise.reject(new Error("mine"))), /mine/);
});

test("VirtualClock.sleep rejects at once with the signal's reason, and its timer is gone", async () => {
  const clock = new VirtualClock();
  const reason = new Error("left");
  await clock.run(async () => {
    const controller = new AbortController();
    const sleeping = assert.rejects(clock.sleep(1000, controller.signal), (error) => error === reason);
    await clock.sleep(10);
    assert.equal(clock.pendingTimers, 1);
    controller.abort(reason);
    assert.equal(clock.pendingTimers, 0);
    await sleeping;
    await assert.rejects(clock.sleep(5, controller.signal), (error) => error === reason);
  });
  assert.equal(clock.now(), 10);
});

test("VirtualClock keeps the order of timers when most of thousands are cancelled", async () => {
  const clock = new VirtualClock();
  const fired: number[] = [];
  await clock.run(async () => {
    const controllers = Array.from({ length: 5000 }, () => new AbortController());
    const sleeps = controllers.map((controller, index) =>
      clock.sleep((index * 7919) % 5000, controller.signal).then(() => fired.push(clock.now()), () => {})
    );
    for (const [index, controller] of controllers.entries()) if (index % 10 !== 0) controller.abort();
    assert.equal(clock.pendingTimers, 500);
    await Promise.all(sleeps);
  });
  assert.equal(fired.length, 500);
  assert.deepEqual(fired, fired.toSorted((a, b) => a - b));
});

test("VirtualClock.advance runs what is due and leaves the rest", async () => {
  const clock = new VirtualClock();
  const fired: number[] = [];
  for (const ms of [5, 10, 15]) void clock.sleep(ms).then(() => fired.push(ms));
  await clock.advance(12);
  assert.deepEqual(fired, [5, 10]);
  assert.equal(clock.now(), 12);
  await clock.advance();
  assert.deepEqual(fired, [5, 10, 15]);
  assert.equal(clock.now(), 15);
});

test("a clock refuses to sleep for a duration that is not a number", () => {
  for (const clock of [new VirtualClock(), new SystemClock()]) {
    assert.throws(() => clock.sleep(NaN), /ms must be a number: current value is NaN/);
  }
});

test("SystemClock counts monotonic ms from a Unix epoch", async () => {
  const clock = new SystemClock();
  const before = clock.now();
  await clock.sleep(1);
  assert.ok(clock.now() > before);
  // 2025-01-01: any machine that runs this is later.
  assert.ok(clock.unixEpochMs + clock.now() > 1_735_689_600_000);
});

test("SystemClock.sleep of 0 or less takes one turn, and can be aborted before it is over", async () => {
  const clock = new SystemClock();
  const events: string[] = [];
  const slept = clock.sleep(-3).then(() => events.push("slept"));
  await undefined;
  events.push("same turn");
  await slept;
  assert.deepEqual(events, ["same turn", "slept"]);
  const controller = new AbortController();
  const sleeping = clock.sleep(0, controller.signal);
  controller.abort(new Error("left"));
  await assert.rejects(sleeping, /left/);
});

test("SystemClock.sleep waits for longer than setTimeout can, until its signal aborts", async () => {
  const clock = new SystemClock();
  for (const ms of [2 ** 31, Infinity]) {
    const controller = new AbortController();
    const reason = new Error("left");
    let slept = false;
    const sleeping = clock.sleep(ms, controller.signal).then(() => slept = true);
    await clock.sleep(2);
    assert.equal(slept, false);
    controller.abort(reason);
    await assert.rejects(sleeping, (error) => error === reason);
    await assert.rejects(clock.sleep(1, controller.signal), (error) => error === reason);
  }
});

test("deadlineSignal aborts with its reason at the deadline", async () => {
  const clock = new VirtualClock();
  await clock.run(async () => {
    const reason = new Error("late");
    const { signal, release } = deadlineSignal(clock, 100, reason);
    await clock.sleep(99);
    assert.equal(signal.aborted, false);
    await clock.sleep(2);
    assert.equal(signal.reason, reason);
    release();
  });
});

test("deadlineSignal follows its parent, and leaves no timer after release", async () => {
  const clock = new VirtualClock();
  const parent = new AbortController();
  const first = deadlineSignal(clock, 100, new Error("late"), parent.signal);
  const second = deadlineSignal(clock, 100, new Error("late"), parent.signal);
  second.release();
  parent.abort(new Error("parent"));
  assert.match(String(first.signal.reason), /parent/);
  assert.equal(second.signal.aborted, false);
  first.release();
  assert.equal(clock.pendingTimers, 0);
  const third = deadlineSignal(clock, Infinity, new Error("late"), parent.signal);
  assert.equal(third.signal.aborted, true);
  third.release();
  await clock.advance();
  assert.equal(clock.now(), 0);
});

for (const [name, clock] of [["system", new SystemClock()], ["virtual", new VirtualClock()]] as const) {
  test(`${name}: a timer fires once, and a cancelled one never`, async () => {
    const fired: string[] = [];
    const cancelOne = clock.timer(5, () => void fired.push("one"));
    const cancelTwo = clock.timer(5, () => void fired.push("two"));
    clock.timer(Infinity, () => void fired.push("never"))();
    cancelTwo();
    const wait = () => clock.sleep(20);
    await (clock instanceof VirtualClock ? clock.run(wait) : wait());
    assert.deepEqual(fired, ["one"]);
    // Both are over: nothing happens any more.
    cancelOne();
    cancelTwo();
    if (clock instanceof VirtualClock) assert.equal(clock.pendingTimers, 0);
  });
}

test("VirtualClock stands still while work outside goes on, and goes on when it has ended, also with an error", async () => {
  const clock = new VirtualClock();
  const turns = async (count: number) => {
    for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  await clock.run(async () => {
    const slept = clock.sleep(5).then(() => clock.now());
    assert.equal(await clock.outside(turns(20).then(() => "read")), "read");
    assert.equal(clock.now(), 0);
    const failing = clock.outside(turns(5).then(() => Promise.reject(new Error("no such file"))));
    await Promise.all([assert.rejects(failing, /no such file/), clock.outside(turns(9))]);
    assert.equal(clock.now(), 0);
    assert.equal(await slept, 5);
  });
});
