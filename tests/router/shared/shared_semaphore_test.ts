import assert from "node:assert/strict";
import { test } from "node:test";
import { type Permits, SharedSemaphore } from "../../../router/shared/shared_semaphore.ts";
import { ThreadCells } from "../../../router/threads/thread_cells.ts";

const full = ({ permits, maxWaiting }: Permits) =>
  new Error(`${permits} are taken and ${maxWaiting} may wait`);

/** Semaphores of two threads over one memory; `wakes`: those that were told to look. */
function twoThreads(options: { permits: number; maxWaiting: number }) {
  const memory = ThreadCells.allocate(3);
  const told: number[] = [];
  const cells = [1, 2].map((thread) =>
    new ThreadCells(memory, { thread, threads: 3, onPass: () => told.push(thread) })
  );
  const [one, other] = cells.map(({ admission }) => new SharedSemaphore(admission, { ...options, full }));
  return { one: one!, other: other!, told, memory };
}

test("two threads hand out as many permits as one would, and what one gives back the other gets", async () => {
  const { one, other, told } = twoThreads({ permits: 2, maxWaiting: 5 });
  const first = await one.acquire();
  await other.acquire();
  assert.deepEqual([one.inUse, other.inUse], [2, 2]);
  let granted = false;
  const third = other.acquire().then((release) => {
    granted = true;
    return release;
  });
  first();
  assert.equal(told.length, 1);
  await Promise.resolve();
  assert.equal(granted, false);
  other.wake();
  await third;
  assert.deepEqual([one.inUse, one.waiting], [2, 0]);
});

test("who has waited longest is next, whatever his thread; nobody who comes now is before him", async () => {
  const { one, other } = twoThreads({ permits: 1, maxWaiting: 5 });
  const release = await one.acquire();
  const order: string[] = [];
  const wait = (semaphore: SharedSemaphore, name: string) =>
    semaphore.acquire().then((done) => {
      order.push(name);
      done();
    });
  const all = [wait(other, "first"), wait(one, "second"), wait(other, "third")];
  release();
  // The place is free, and the turn is the other thread's: this one's waiter and a newcomer stay behind.
  const late = wait(one, "fourth");
  assert.equal(one.waiting, 4);
  while (order.length < 4) {
    for (const semaphore of [other, one]) {
      semaphore.wake();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  await Promise.all([...all, late]);
  assert.deepEqual(order, ["first", "second", "third", "fourth"]);
  assert.deepEqual([one.inUse, one.waiting], [0, 0]);
});

test("those who wait are bounded over both threads, and leave with their signal", async () => {
  const { one, other } = twoThreads({ permits: 1, maxWaiting: 2 });
  await one.acquire();
  const leaving = new AbortController();
  const waiting = [one.acquire(leaving.signal), other.acquire(leaving.signal)];
  await assert.rejects(one.acquire(), /1 are taken and 2 may wait/);
  leaving.abort(new Error("gone"));
  for (const one of waiting) await assert.rejects(one, /gone/);
  assert.deepEqual([one.waiting, other.waiting], [0, 0]);
});

test("what a dead thread held and waited for is given back", async () => {
  const { one, other, memory } = twoThreads({ permits: 2, maxWaiting: 5 });
  await one.acquire();
  await one.acquire();
  void one.acquire();
  const waiting = other.acquire();
  new ThreadCells(memory, { thread: 0, threads: 3, onPass: () => {} }).forget(1);
  other.wake();
  await waiting;
  assert.deepEqual([other.inUse, other.waiting], [1, 0]);
});
