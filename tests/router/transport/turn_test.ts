import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { Turn } from "../../../router/transport/turn.ts";

function setUp() {
  const clock = new VirtualClock();
  const turn = new Turn(clock);
  const journal: string[] = [];
  const socket = (name: string, onTake = () => {}) => ({
    take: (data: Buffer) => {
      journal.push(`${name} takes ${data}`);
      onTake();
    },
    flush: () => void journal.push(`${name} writes`),
  });
  return { clock, turn, journal, socket };
}

test("what a turn brings is taken at its end in the order in which it came, then all is written", async () => {
  const { clock, turn, journal, socket } = setUp();
  const [a, b] = [socket("a"), socket("b")];
  turn.write(b);
  turn.read(a, Buffer.from("1"));
  turn.read(b, Buffer.from("2"));
  turn.read(a, Buffer.from("3"));
  assert.deepEqual(journal, []);
  await clock.advance(0);
  assert.deepEqual(journal, ["a takes 1", "b takes 2", "a takes 3", "b writes"]);
});

test("what is written because of what was read leaves in the same turn", async () => {
  const { clock, turn, journal, socket } = setUp();
  const b = socket("b");
  turn.read(socket("a", () => turn.write(b)), Buffer.from("1"));
  await clock.advance(0);
  assert.deepEqual(journal, ["a takes 1", "b writes"]);
  assert.equal(clock.pendingTimers, 0);
});

test("the end of a connection comes behind the bytes before it, and nothing is taken twice", async () => {
  const { clock, turn, journal, socket } = setUp();
  turn.read(socket("a"), Buffer.from("1"));
  turn.takeNow();
  journal.push("the end");
  await clock.advance(0);
  assert.deepEqual(journal, ["a takes 1", "the end"]);
});
