import assert from "node:assert/strict";
import { test } from "node:test";
import { Stopper, type StopSignal, unlessAborted } from "../../base/stop_signal.ts";

/** What somebody sees of a signal of either kind: told once, in order, but who has left, and who comes too late. */
async function story(signal: StopSignal, abort: (reason: unknown) => void): Promise<unknown[]> {
  const seen: unknown[] = [signal.aborted, signal.reason];
  const left = () => void seen.push("left");
  signal.addEventListener("abort", () => void seen.push("first"), { once: true });
  signal.addEventListener("abort", left);
  signal.addEventListener("abort", () => void seen.push("second"));
  signal.removeEventListener("abort", left);
  signal.throwIfAborted();
  const reason = new Error("enough");
  const waiting = unlessAborted(new Promise(() => {}), signal);
  abort(reason);
  abort(new Error("again"));
  signal.addEventListener("abort", () => void seen.push("late"));
  seen.push(signal.aborted, signal.reason === reason);
  assert.throws(() => signal.throwIfAborted(), reason);
  await assert.rejects(waiting, reason);
  return seen;
}

test("a stopper is a signal like the runtime's own", async () => {
  const own = new Stopper();
  const runtimes = new AbortController();
  const expected = [false, undefined, "first", "second", true, true];
  assert.deepEqual(await story(own, (reason) => own.abort(reason)), expected);
  assert.deepEqual(await story(runtimes.signal, (reason) => runtimes.abort(reason)), expected);
});

test("a stopper's signal of the runtime's kind tells the same, whether it was asked for before or after", () => {
  const reason = new Error("enough");
  const before = new Stopper();
  const told: unknown[] = [];
  before.signal.addEventListener("abort", () => told.push(before.signal.reason));
  before.abort(reason);
  const after = new Stopper();
  after.abort(reason);
  assert.deepEqual([told, before.signal === before.signal, after.signal.aborted], [[reason], true, true]);
  assert.equal(after.signal.reason, reason);
});
