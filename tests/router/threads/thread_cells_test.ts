import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { keyHash } from "../../../router/http/gate/auth.ts";
import { Breaker } from "../../../router/pool/breaker.ts";
import { ThreadCells } from "../../../router/threads/thread_cells.ts";

function cellsOf(memory: SharedArrayBuffer, thread: number): ThreadCells {
  return new ThreadCells(memory, { thread, threads: 3, onPass: () => {} });
}

test("counts of a worker are sums over threads, and those of a dead one are taken back", () => {
  const memory = ThreadCells.allocate(3);
  const [lead, one, other] = [0, 1, 2].map((thread) => cellsOf(memory, thread));
  for (let i = 0; i < 5; i++) assert.ok(one!.worker(7).inFlight.tryAdd(8));
  for (let i = 0; i < 3; i++) assert.ok(other!.worker(7).inFlight.tryAdd(8));
  assert.equal(other!.worker(7).inFlight.tryAdd(8), false);
  one!.worker(7).served.add(4);
  other!.handOffs(7, 8).tryAdd(1);
  assert.equal(one!.handOffs(7, 8).tryAdd(1), false);
  assert.equal(one!.handOffs(8, 7).value, 0);
  lead!.forget(1);
  const { inFlight, served } = lead!.worker(7);
  assert.deepEqual([inFlight.value, served.value], [3, 4]);
  lead!.forget(2);
  assert.deepEqual([inFlight.value, lead!.handOffs(7, 8).value], [0, 0]);
});

test("a slot is used again when nobody works there, with its counts at 0", () => {
  const memory = ThreadCells.allocate(3);
  const [lead, one] = [0, 1].map((thread) => cellsOf(memory, thread));
  assert.equal(lead!.takeSlot(new Set()), 0);
  one!.worker(0).inFlight.tryAdd(1);
  one!.worker(0).served.add(9);
  assert.equal(lead!.takeSlot(new Set()), 1);
  one!.worker(0).inFlight.add(-1);
  assert.equal(lead!.takeSlot(new Set([1])), 0);
  assert.equal(lead!.worker(0).served.value, 0);
  const all = new Set(Array.from({ length: 256 }, (_, at) => at));
  assert.throws(
    () => lead!.takeSlot(all),
    (error) => CanopyError.is(error) && error.code === "too_many_workers",
  );
  assert.throws(() => lead!.queue(256), (error) => CanopyError.is(error) && error.code === "too_many_models");
});

test("threads share a breaker: failures of all open it, one probe of all is let through, and one success closes it", async () => {
  const clock = new VirtualClock();
  const memory = ThreadCells.allocate(3);
  const [one, other] = [1, 2].map((thread) =>
    new Breaker({ clock, failures: 3, openMs: 100, cells: cellsOf(memory, thread).worker(3).breaker })
  );
  await clock.run(async () => {
    one!.end(one!.begin(), "failed");
    other!.end(other!.begin(), "failed");
    assert.equal(one!.state, "closed");
    one!.end(one!.begin(), "failed");
    assert.deepEqual([one!.state, other!.state], ["open", "open"]);
    await clock.sleep(101);
    assert.ok(other!.admits);
    const probe = one!.begin();
    assert.equal(other!.admits, false);
    one!.end(probe, "ok");
    assert.deepEqual([one!.state, other!.state], ["closed", "closed"]);
    assert.deepEqual(Object.fromEntries(other!.transitions), {
      "closed open": 1,
      "open half_open": 1,
      "half_open closed": 1,
    });
  });
});

test("a key has one count for all threads, and what a dead one had under way is taken back", () => {
  const memory = ThreadCells.allocate(3);
  const [lead, one, other] = [0, 1, 2].map((thread) => cellsOf(memory, thread).keys);
  const [alice, bob] = ["alice", "bob"].map(keyHash);
  const nowMs = 1_700_000_000_000;
  for (const keys of [one, other]) {
    keys!.of(alice!)!.tokens.add(50, nowMs);
    assert.ok(keys!.of(alice!)!.requests.tryAdd(2, nowMs));
    assert.ok(keys!.of(alice!)!.running.tryAdd(2));
  }
  const counts = lead!.of(alice!)!;
  assert.deepEqual([counts.tokens.count(nowMs), counts.requests.tryAdd(2, nowMs)], [100, false]);
  assert.equal(counts.running.tryAdd(2), false);
  assert.equal(lead!.of(bob!)!.requests.count(nowMs), 0);
  cellsOf(memory, 0).forget(1);
  assert.deepEqual([counts.running.value, counts.tokens.count(nowMs)], [1, 100]);
  for (let i = 0; i < 1_022; i++) assert.ok(lead!.of(keyHash(`key ${i}`)));
  assert.equal(other!.of(keyHash("one more")), undefined);
  assert.equal(one!.of(bob!)!.requests.tryAdd(1, nowMs), true);
});
