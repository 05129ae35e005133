import assert from "node:assert/strict";
import { test } from "node:test";
import { joined, joinedInTurns } from "../../base/bytes.ts";
import { VirtualClock } from "../../base/clock.ts";
import { atOnce, longStep, turnByTurn, type Turns } from "../../base/turns.ts";

function* work(step: Parameters<typeof longStep<string>>[0]): Turns<string> {
  yield;
  try {
    return yield* longStep(step);
  } catch (error) {
    return `failed: ${error instanceof Error ? error.message : ""}`;
  }
}

const fail = () => {
  throw new Error("no");
};

test("a long step is done elsewhere turn by turn, here at once, and what it throws is thrown in the work", async () => {
  const clock = new VirtualClock();
  const step = { elsewhere: () => Promise.resolve("elsewhere"), here: () => "here" };
  assert.equal(await clock.run(() => turnByTurn(clock, work(step))), "elsewhere");
  assert.equal(atOnce(work(step)), "here");
  const bad = { elsewhere: () => Promise.reject(new Error("there")), here: fail };
  assert.equal(await clock.run(() => turnByTurn(clock, work(bad))), "failed: there");
  assert.equal(atOnce(work(bad)), "failed: no");
});

test("a signal ends work between two turns, and after a long step", async () => {
  const clock = new VirtualClock();
  const leaving = new AbortController();
  const step = {
    elsewhere: () => {
      leaving.abort(new Error("gone"));
      return Promise.resolve("");
    },
    here: () => "",
  };
  function* all(): Turns<void> {
    yield* longStep(step);
    assert.fail("the work went on");
  }
  await assert.rejects(clock.run(() => turnByTurn(clock, all(), leaving.signal)), /gone/);
  await assert.rejects(clock.run(() => turnByTurn(clock, work(step), leaving.signal)), /gone/);
});

test("many megabytes are joined in several turns", () => {
  const chunks = Array.from({ length: 100 }, (_, at) => new Uint8Array(100_000).fill(at));
  const turns = joinedInTurns(chunks);
  let count = 1;
  let step = turns.next();
  for (; step.done !== true; step = turns.next()) count++;
  assert.deepEqual(step.value, joined(chunks));
  assert.ok(count >= 4, `${count} turns`);
});
