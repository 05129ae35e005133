import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../properties.ts";
import { VirtualClock } from "../../base/clock.ts";
import { AsyncQueue } from "../../base/queue.ts";

/** Lets promises that are already settled run their handlers. */
async function flush(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await undefined;
}

test("AsyncQueue gives items in order and ends after close", async () => {
  const queue = new AsyncQueue<number>(2);
  const clock = new VirtualClock();
  const seen: number[] = [];
  await clock.run(async () => {
    const produce = async () => {
      for (let item = 0; item < 500; item++) await queue.push(item);
      queue.close();
    };
    const consume = async () => {
      for await (const item of queue) seen.push(item);
    };
    await Promise.all([produce(), consume()]);
  });
  assert.deepEqual(seen, Array.from({ length: 500 }, (_, item) => item));
  assert.deepEqual(await queue.next(), { done: true, value: undefined });
});

test("AsyncQueue refuses a capacity that is not a positive integer", () => {
  for (const capacity of [0, -1, 1.5, NaN, Infinity]) {
    assert.throws(() => new AsyncQueue(capacity), new RegExp(`current value is ${capacity}`));
  }
});

test("AsyncQueue.fail gives the items that are left, then the error once, then the end", async () => {
  const queue = new AsyncQueue<string>(4);
  await queue.push("a");
  queue.fail(new Error("broken"));
  assert.equal(queue.closed, true);
  assert.deepEqual(await queue.next(), { done: false, value: "a" });
  await assert.rejects(queue.next(), /broken/);
  assert.deepEqual(await queue.next(), { done: true, value: undefined });
});

test("AsyncQueue.cancel drops items and a failure nobody has read", async () => {
  const queue = new AsyncQueue<string>(4);
  await queue.push("a");
  queue.fail(new Error("broken"));
  queue.cancel();
  assert.equal(queue.size, 0);
  assert.deepEqual(await queue.next(), { done: true, value: undefined });
});

test("AsyncQueue ends for its producers when the consumer leaves the loop", async () => {
  const queue = new AsyncQueue<number>(1);
  await queue.push(1);
  // Reading the first item lets the second one in; the third still waits when the loop is left.
  const second = queue.push(2);
  const third = assert.rejects(queue.push(3), /queue is closed/);
  for await (const _ of queue) break;
  await Promise.all([second, third]);
  assert.equal(queue.tryPush(4), false);
  await assert.rejects(queue.push(4), /queue is closed/);
});

test("AsyncQueue.push leaves with its signal and takes its item along", async () => {
  const queue = new AsyncQueue<number>(1);
  const controller = new AbortController();
  await queue.push(1);
  const second = assert.rejects(queue.push(2, controller.signal), /gone/);
  const third = queue.push(3);
  controller.abort(new Error("gone"));
  await second;
  assert.deepEqual(await queue.next(), { done: false, value: 1 });
  await third;
  assert.deepEqual(await queue.next(), { done: false, value: 3 });
  await assert.rejects(queue.push(4, controller.signal), /gone/);
});

test("AsyncQueue allows one read at a time", async () => {
  const queue = new AsyncQueue<number>(1);
  const first = queue.next();
  await assert.rejects(queue.next(), /another read is waiting/);
  assert.equal(queue.tryPush(7), true);
  assert.deepEqual(await first, { done: false, value: 7 });
});

type Step = { do: "push" | "tryPush" | "next" | "abort" | "close" | "fail" };

test("AsyncQueue behaves like a plain list under any sequence of calls", async () => {
  const step: fc.Arbitrary<Step> = fc.record({
    do: fc.oneof(
      { weight: 6, arbitrary: fc.constant("push" as const) },
      { weight: 3, arbitrary: fc.constant("tryPush" as const) },
      { weight: 6, arbitrary: fc.constant("next" as const) },
      { weight: 2, arbitrary: fc.constant("abort" as const) },
      { weight: 1, arbitrary: fc.constantFrom("close" as const, "fail" as const) },
    ),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(step, { maxLength: 80 }),
      async (capacity, steps) => {
        const queue = new AsyncQueue<number>(capacity);
        // The model: what is inside, who waits outside, and what every call has to come to.
        let inside: number[] = [];
        let outside: number[] = [];
        let ended: "no" | "closed" | "failed" = "no";
        let reading: string | undefined;
        const expected = new Map<string, string>();
        const actual = new Map<string, string>();
        const controllers = new Map<number, AbortController>();
        const watch = (name: string, promise: Promise<unknown>) => {
          promise.then((value) => actual.set(name, JSON.stringify(value) ?? "ok"), (error) => {
            actual.set(name, String(error));
          });
        };
        const item = (value: number) => JSON.stringify({ done: false, value });
        for (const [id, { do: what }] of steps.entries()) {
          if (what === "push" || what === "tryPush") {
            const room: boolean = ended === "no" && (reading !== undefined || inside.length < capacity);
            if (what === "tryPush") assert.equal(queue.tryPush(id), room);
            else {
              const controller = new AbortController();
              controllers.set(id, controller);
              watch(`push ${id}`, queue.push(id, controller.signal));
            }
            if (room) {
              if (reading !== undefined) {
                expected.set(reading, item(id));
                reading = undefined;
              } else inside.push(id);
              if (what === "push") expected.set(`push ${id}`, "ok");
            } else if (what === "push") {
              if (ended === "no") outside.push(id);
              else expected.set(`push ${id}`, "Error: Cannot push: the queue is closed");
            }
          } else if (what === "next") {
            watch(`next ${id}`, queue.next());
            const first = inside.shift();
            if (first !== undefined) {
              expected.set(`next ${id}`, item(first));
              const admitted = outside.shift();
              if (admitted !== undefined) {
                inside.push(admitted);
                expected.set(`push ${admitted}`, "ok");
              }
            } else if (ended === "failed") {
              expected.set(`next ${id}`, "Error: broken");
              ended = "closed";
            } else if (ended === "closed") expected.set(`next ${id}`, '{"done":true}');
            else if (reading !== undefined) {
              expected.set(`next ${id}`, "Error: Cannot read: another read is waiting");
            } else reading = `next ${id}`;
          } else if (what === "abort") {
            const leaving = outside.at(-1);
            if (leaving !== undefined) {
              controllers.get(leaving)?.abort(new Error("gone"));
              outside.pop();
              expected.set(`push ${leaving}`, "Error: gone");
            }
          } else if (ended === "no") {
            if (what === "close") queue.close();
            else queue.fail(new Error("broken"));
            const error = what === "close" ? "Error: Cannot push: the queue is closed" : "Error: broken";
            for (const waiting of outside) expected.set(`push ${waiting}`, error);
            outside = [];
            ended = what === "close" ? "closed" : "failed";
            if (reading !== undefined) {
              expected.set(reading, what === "close" ? '{"done":true}' : "Error: broken");
              reading = undefined;
              ended = "closed";
            }
          }
          await flush();
          assert.equal(queue.size, inside.length);
          assert.deepEqual([...actual].sort(), [...expected].sort());
        }
        queue.cancel();
        inside = [];
        await flush();
        assert.equal(queue.size, 0);
      },
    ),
    { numRuns: 300 },
  );
});

test("an item may be added where there is no room, but not behind the end", async () => {
  const queue = new AsyncQueue<number>(1);
  for (const item of [1, 2, 3]) queue.add(item);
  queue.close();
  queue.add(4);
  const read: number[] = [];
  for await (const item of queue) read.push(item);
  assert.deepEqual(read, [1, 2, 3]);
});
