import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { Admission } from "../../../../router/http/gate/admission.ts";
import { ThreadCells } from "../../../../router/threads/thread_cells.ts";

/** Admission of two threads that serve, over one memory; nobody is told of what the other gives back. */
function twoThreads(bounds: { maxRunning: number; maxQueued: number; queueTimeoutMs: number }) {
  const clock = new VirtualClock();
  const memory = ThreadCells.allocate(3);
  const [one, other] = [1, 2].map((thread) => {
    const cells = new ThreadCells(memory, { thread, threads: 3, onPass: () => {} });
    return new Admission({ clock, shared: cells.admission, ...bounds });
  });
  return { clock, one: one!, other: other! };
}

const forever = new AbortController().signal;

test("who comes while a place is free and another thread's turn waits no longer than the queue allows", async () => {
  const { clock, one, other } = twoThreads({ maxRunning: 1, maxQueued: 8, queueTimeoutMs: 1_000 });
  await clock.run(async () => {
    const release = await one.take(forever);
    const first = other.take(forever);
    release();
    const late = one.take(forever);
    const refusal = { code: "queue_timeout", status: 503 };
    await Promise.all([assert.rejects(first, refusal), assert.rejects(late, refusal)]);
    assert.equal(clock.now(), 1_000);
  }, { limitMs: 10_000 });
  assert.deepEqual([one.counts, other.counts], [{ allowed: 1, rejected: 1 }, { allowed: 0, rejected: 1 }]);
  assert.equal(clock.pendingTimers, 0);
});

test("a place that is only tried is had at once or not at all, also where it is another thread's turn", async () => {
  const { clock, one, other } = twoThreads({ maxRunning: 2, maxQueued: 1, queueTimeoutMs: 1_000 });
  await clock.run(async () => {
    const releases = [await one.take(forever), await one.take(forever)];
    const gone = new AbortController();
    const first = other.take(gone.signal);
    releases[0]!();
    assert.equal(one.tryTake(), undefined);
    gone.abort(new Error("gone"));
    await assert.rejects(first, /gone/);
    const release = one.tryTake();
    assert.equal(one.running, 2);
    assert.equal(one.tryTake(), undefined);
    release?.();
    releases[1]!();
    assert.deepEqual([one.running, one.waiting, one.counts.allowed], [0, 0, 3]);
  });
});
