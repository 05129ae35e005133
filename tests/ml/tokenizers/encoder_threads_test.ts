import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { type StartEncoder, startEncoderThread } from "../../../ml/tokenizers/encoder_thread.ts";
import { EncoderThreads } from "../../../ml/tokenizers/encoder_threads.ts";
import { loadFixture } from "./tokenizer_shapes.ts";

const qwen = await loadFixture("tiny-qwen3");
const files = () =>
  Promise.resolve({
    source: "tiny-qwen3",
    tokenizer: JSON.stringify(qwen.files.tokenizer),
    config: JSON.stringify(qwen.files.config),
  });

test("a thread makes the tokens that the event loop would make, and their text", async () => {
  const clock = new VirtualClock();
  const threads = new EncoderThreads({ files, start: startEncoderThread, clock });
  threads.start();
  const text = "A long text, \u4e16\u754c, with 12 numbers.\n".repeat(500);
  const { ids, over } = await threads.encode({ text });
  assert.deepEqual([...ids], qwen.tokenizer.encode(text));
  assert.equal(over, false);
  assert.equal((await threads.encode({ text, maxTokens: 100 })).over, true);
  assert.equal(await threads.decode([...ids]), text);
});

/** A thread that does what a test says. */
function fakeThread(onPost: (events: Parameters<StartEncoder>[1]) => void) {
  const seen = { started: 0, ended: 0 };
  const start: StartEncoder = (_, events) => {
    seen.started++;
    return {
      post: () => queueMicrotask(() => onPost(events)),
      keepAlive() {},
      terminate: () => void seen.ended++,
    };
  };
  return { start, seen };
}

test("a text that the tokenizer's patterns cannot take is too long, and the thread goes on", async () => {
  const { start, seen } = fakeThread(({ message }) =>
    message({ kind: "failed", reason: "Maximum call stack size exceeded", tooLong: true })
  );
  const threads = new EncoderThreads({ files, start, clock: new VirtualClock() });
  for (let times = 0; times < 2; times++) {
    await assert.rejects(threads.encode({ text: "<" }), (error) => {
      assert.ok(CanopyError.is(error));
      assert.deepEqual([error.status, error.code], [400, "text_too_long"]);
      return true;
    });
  }
  assert.deepEqual(seen, { started: 1, ended: 0 });
});

test("a text that takes too long is given up with its thread, and the next one gets another", async () => {
  const { start, seen } = fakeThread(() => {});
  const clock = new VirtualClock();
  const threads = new EncoderThreads({ files, start, clock });
  for (let times = 1; times <= 2; times++) {
    const outcome = assert.rejects(threads.encode({ text: " " }), { code: "text_too_long" });
    while (seen.started < times) await Promise.resolve();
    await clock.advance(clock.now() + 60_000);
    await outcome;
    assert.deepEqual(seen, { started: times, ended: times });
  }
});
