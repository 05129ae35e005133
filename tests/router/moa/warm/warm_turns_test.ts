import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { WarmTurns } from "../../../../router/moa/warm/warm_turns.ts";
import { FakePrompts } from "./fake_prompts.ts";

test("A worker has something better to do while a prompt waits there for its first token", () => {
  const prompts = new FakePrompts();
  const turns = new WarmTurns(new VirtualClock(), prompts);
  assert.equal(turns.busyWith("w"), undefined);
  const hasRead = prompts.reads("w");
  const hasReadToo = prompts.reads("w");
  assert.equal(turns.busyWith("w"), "prompts");
  assert.equal(turns.busyWith("other"), undefined);
  hasRead();
  assert.equal(turns.busyWith("w"), "prompts", "the second one still waits");
  hasReadToo();
  assert.equal(turns.busyWith("w"), undefined);
});

test("Small warms share a step, a large one fills it", () => {
  const turns = new WarmTurns(new VirtualClock(), new FakePrompts());
  const ends = [100, 100, 100].map((tokens) => {
    assert.equal(turns.busyWith("w"), undefined);
    return turns.take("w", tokens);
  });
  assert.equal(turns.busyWith("w"), "warms");
  ends[0]!();
  assert.equal(turns.busyWith("w"), undefined);
});

test("Streams take their part of each step, and leave no room for warms when they fill it", () => {
  const turns = new WarmTurns(new VirtualClock(), new FakePrompts());
  assert.equal(turns.busyWith("w", 255), undefined, "one warm is always possible, as long as there is room");
  assert.equal(turns.busyWith("w", 256), "streams");
  turns.take("w", 100);
  assert.equal(turns.busyWith("w", 155), undefined);
  assert.equal(turns.busyWith("w", 156), "warms");
});

test("A full step at a time: those in line have their turns in the order in which they came", () => {
  const prompts = new FakePrompts();
  const turns = new WarmTurns(new VirtualClock(), prompts);
  const took: number[] = [];
  const ends: (() => void)[] = [];
  const hasRead = prompts.reads("w");
  const lines = [0, 1, 2, 3].map((index) =>
    turns.wait("w", () => {
      took.push(index);
      ends.push(turns.take("w", 256));
    })
  );
  turns.wait("other", () => assert.fail("another worker"));
  lines[1]!();
  assert.deepEqual(took, []);
  hasRead();
  assert.deepEqual(took, [0]);
  assert.equal(turns.busyWith("w"), "warms");
  const readsAgain = prompts.reads("w");
  ends[0]!();
  assert.deepEqual(took, [0], "a real prompt comes first");
  readsAgain();
  assert.deepEqual(took, [0, 2]);
  ends[1]!();
  ends[1]!();
  assert.deepEqual(took, [0, 2, 3]);
  ends[2]!();
  assert.equal(turns.busyWith("w"), undefined);
});

test("A turn that is not taken goes to the next in line, and nobody has two places in it", () => {
  const turns = new WarmTurns(new VirtualClock(), new FakePrompts());
  const took: string[] = [];
  const end = turns.take("w", 256);
  const leave = () => took.push("left");
  turns.wait("w", leave);
  turns.wait("w", leave);
  turns.wait("w", () => {
    took.push("taken");
    turns.take("w", 256);
  });
  end();
  assert.deepEqual(took, ["left", "taken"]);
});

test("A pause lasts as long as its longest, and ends by itself", async () => {
  const clock = new VirtualClock();
  const turns = new WarmTurns(clock, new FakePrompts());
  turns.pause("w", 100);
  turns.pause("w", 50);
  assert.equal(turns.pausedMs("w"), 100);
  assert.equal(turns.busyWith("w"), undefined);
  await clock.advance(60);
  assert.equal(turns.pausedMs("w"), 40);
  await clock.advance(100);
  assert.equal(turns.pausedMs("w"), 0);
});
