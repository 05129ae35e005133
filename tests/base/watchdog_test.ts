import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../base/clock.ts";
import { Watchdog } from "../../base/watchdog.ts";

/** A watchdog and the times at which it barked. */
function watch(clock: VirtualClock): { dog: Watchdog; lateMs: number[] } {
  const lateMs: number[] = [];
  return { dog: new Watchdog(clock, { onLate: () => void lateMs.push(clock.now()) }), lateMs };
}

test("a wait that lasts too long is late once, at its due time", async () => {
  const clock = new VirtualClock();
  const { dog, lateMs } = watch(clock);
  dog.arm(50);
  await clock.advance(1000);
  assert.deepEqual(lateMs, [50]);
  assert.equal(clock.pendingTimers, 0);
});

test("a thousand short waits share a timer, and the one that hangs is late after its own limit", async () => {
  const clock = new VirtualClock();
  const { dog, lateMs } = watch(clock);
  let mostTimers = 0;
  for (let wait = 0; wait < 1000; wait++) {
    dog.arm(clock.now() + 50);
    mostTimers = Math.max(mostTimers, clock.pendingTimers);
    await clock.advance(clock.now() + 7);
    dog.disarm();
    await clock.advance(clock.now() + 100);
  }
  dog.arm(clock.now() + 50);
  const beganMs = clock.now();
  await clock.advance();
  assert.deepEqual(lateMs, [beganMs + 50]);
  assert.equal(mostTimers, 1);
});

test("a limit that is set earlier or later than the last one counts", async () => {
  const clock = new VirtualClock();
  const { dog, lateMs } = watch(clock);
  dog.arm(500);
  dog.arm(30);
  await clock.advance(100);
  assert.deepEqual(lateMs, [30]);
  dog.arm(200);
  dog.arm(400);
  await clock.advance(1000);
  assert.deepEqual(lateMs, [30, 400]);
  dog.arm(900);
  await clock.advance(1001);
  assert.deepEqual(lateMs, [30, 400, 1000], "a due time in the past is late at once");
});

test("nothing is left running when it is stopped, nor by a limit of infinity", async () => {
  const clock = new VirtualClock();
  const { dog, lateMs } = watch(clock);
  dog.arm(Infinity);
  assert.equal(clock.pendingTimers, 0);
  dog.arm(50);
  assert.equal(clock.pendingTimers, 1);
  dog.stop();
  assert.equal(clock.pendingTimers, 0);
  dog.stop();
  await clock.advance(1000);
  assert.deepEqual(lateMs, []);
});

test("due times that no sum of durations meets exactly do not keep it awake", async () => {
  const clock = new VirtualClock();
  const { dog, lateMs } = watch(clock);
  for (let wait = 0; wait < 100; wait++) {
    dog.arm(clock.now() + 0.1);
    await clock.advance(clock.now() + 0.07);
  }
  await clock.advance();
  assert.equal(lateMs.length, 1);
  assert.equal(clock.pendingTimers, 0);
});

test("watchdogs of one clock share a timer, and each is late at its own time", async () => {
  const clock = new VirtualClock();
  const [one, two, three] = [watch(clock), watch(clock), watch(clock)];
  one.dog.arm(50);
  two.dog.arm(70);
  three.dog.arm(40);
  assert.equal(clock.pendingTimers, 1);
  three.dog.stop();
  await clock.advance(60);
  two.dog.disarm();
  two.dog.arm(90);
  await clock.advance(1000);
  assert.deepEqual([one.lateMs, two.lateMs, three.lateMs], [[50], [90], []]);
  assert.equal(clock.pendingTimers, 0);
});
