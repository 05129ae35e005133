import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { faultyEvents } from "../../../simulator/server/faulty_body.ts";

test("a cut stream closes the source of its events", async () => {
  let closed = false;
  async function* source() {
    try {
      for (let place = 0; place < 10; place++) {
        await Promise.resolve();
        yield `${place}`;
      }
    } finally {
      closed = true;
    }
  }
  const request = { url: "http://w", beganMs: 0, clock: new VirtualClock() };
  const events = faultyEvents(source(), { kind: "truncate", value: 2 }, request);
  const read: unknown[] = [];
  await assert.rejects(async () => {
    for await (const event of events) read.push(event);
  }, { code: "reset_in_body" });
  assert.deepEqual(read, ["0", "1"]);
  assert.equal(closed, true);
});
