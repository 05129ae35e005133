import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { Semaphore } from "../../base/semaphore.ts";

const full = ({ permits, maxWaiting }: Semaphore) =>
  new Error(`${permits} are taken and ${maxWaiting} may wait`);

test("Semaphore grants waiting callers in the order they came", async () => {
  const semaphore = new Semaphore({ permits: 1, maxWaiting: 10, full });
  const release = await semaphore.acquire();
  const order: number[] = [];
  const waiting = [1, 2, 3].map(async (id) => {
    const done = await semaphore.acquire();
    order.push(id);
    done();
  });
  assert.equal(semaphore.waiting, 3);
  release();
  await Promise.all(waiting);
  assert.deepEqual(order, [1, 2, 3]);
  assert.equal(semaphore.inUse, 0);
});

test("Semaphore refuses with the error that it was given when too many wait", async () => {
  const semaphore = new Semaphore({ permits: 2, maxWaiting: 0, full });
  await semaphore.acquire();
  await semaphore.acquire();
  await assert.rejects(semaphore.acquire(), /2 are taken and 0 may wait/);
});

test("Semaphore counts a release once, however often it is called", async () => {
  const semaphore = new Semaphore({ permits: 1, maxWaiting: 5, full });
  const release = await semaphore.acquire();
  const second = semaphore.acquire();
  release();
  release();
  await second;
  assert.equal(semaphore.inUse, 1);
});

test("Semaphore lets a waiting caller leave with its signal, without losing a permit", async () => {
  const semaphore = new Semaphore({ permits: 1, maxWaiting: 5, full });
  const controller = new AbortController();
  const release = await semaphore.acquire();
  const leaving = assert.rejects(semaphore.acquire(controller.signal), /gone/);
  const staying = semaphore.acquire();
  controller.abort(new Error("gone"));
  await leaving;
  assert.equal(semaphore.waiting, 1);
  release();
  (await staying)();
  assert.equal(semaphore.inUse, 0);
  await assert.rejects(semaphore.acquire(controller.signal), /gone/);
});

test("Semaphore refuses fewer than one permit", () => {
  for (const permits of [0, -1, NaN]) {
    assert.throws(() => new Semaphore({ permits, maxWaiting: 1, full }), /permits must be at least 1/);
  }
});

test("Semaphore never runs more than its permits at once, and ends empty", async () => {
  const clock = new VirtualClock();
  const random = new Random("semaphore");
  const semaphore = new Semaphore({ permits: 7, maxWaiting: 1000, full });
  let running = 0;
  let most = 0;
  await clock.run(() =>
    Promise.all(Array.from({ length: 300 }, async () => {
      const controller = new AbortController();
      if (random.next() < 0.3) {
        void clock.sleep(random.int(40)).then(() => controller.abort(new Error("gone")));
      }
      const release = await semaphore.acquire(controller.signal).catch(() => undefined);
      if (release === undefined) return;
      most = Math.max(most, ++running);
      await clock.sleep(random.int(10));
      running--;
      release();
    }))
  );
  assert.equal(most, 7);
  assert.equal(semaphore.inUse, 0);
  assert.equal(semaphore.waiting, 0);
});
