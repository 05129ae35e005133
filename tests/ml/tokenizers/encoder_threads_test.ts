import assert from "node:assert/strict";
import { test } from "node:test";
import { type Clock, VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import {
  type StartEncoder,
  startEncoderThread,
  type ToEncoder,
} from "../../../ml/tokenizers/encoder_thread.ts";
import { EncoderThreads } from "../../../ml/tokenizers/encoder_threads.ts";
import { loadFixture } from "./tokenizer_shapes.ts";

const qwen = await loadFixture("tiny-qwen3");
const files = () =>
  Promise.resolve({
    source: "tiny-qwen3",
    tokenizer: JSON.stringify(qwen.files.tokenizer),
    config: JSON.stringify(qwen.files.config),
    chatTemplate: undefined,
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
  const ends = await threads.encode({ text, ends: 50 }, { behind: [7] });
  assert.deepEqual(ends.ids, [7, ...ids.slice(0, 50), ...ids.slice(-50)]);
  assert.equal(ends.tokens, 1 + ids.length);
  assert.deepEqual(await threads.encode({ text, ends: ids.length }), await threads.encode({ text }));
});

test("a thread renders what the event loop would render, and refuses what it would refuse", async () => {
  const threads = new EncoderThreads({ files, start: startEncoderThread, clock: new VirtualClock() });
  const messages = Array.from({ length: 100 }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    content: `message ${at}`,
  }));
  const options = { templateArguments: { enable_thinking: false } };
  assert.equal(await threads.render(messages, options), qwen.tokenizer.renderChat(messages, options));
  const refusing = () =>
    files().then((known) => ({ ...known, chatTemplate: "{{ raise_exception('Only pairs') }}" }));
  const others = new EncoderThreads({
    files: refusing,
    start: startEncoderThread,
    clock: new VirtualClock(),
  });
  await assert.rejects(others.render(messages), (error) => {
    assert.ok(CanopyError.is(error));
    assert.deepEqual([error.status, error.code, error.param], [400, "invalid_messages", "messages"]);
    assert.match(error.message, /Only pairs/);
    return true;
  });
});

/** A thread that does what a test says. */
function fakeThread(onPost: (events: Parameters<StartEncoder>[1], job: ToEncoder) => void) {
  const seen = { started: 0, ended: 0 };
  const start: StartEncoder = (_, events) => {
    seen.started++;
    return {
      post: (job) => queueMicrotask(() => onPost(events, job)),
      keepAlive() {},
      terminate: () => void seen.ended++,
    };
  };
  return { start, seen };
}

test("a text that the tokenizer's patterns cannot take is too long, and the thread goes on", async () => {
  const { start, seen } = fakeThread(({ message }) =>
    message({ kind: "failed", reason: "Maximum call stack size exceeded", refused: "text_too_long" })
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

test("a long text is handed over in parts, and its many ids are listed, a turn each", async () => {
  const COUNT = 200_000;
  let text = "";
  let parts = 0;
  const { start } = fakeThread(({ message }, job) => {
    if ("part" in job) {
      parts++;
      text += job.part;
    } else if ("text" in job) {
      text += job.text;
      message({
        kind: "encoded",
        ids: Int32Array.from({ length: COUNT }, (_, at) => at),
        tokens: COUNT,
        state: undefined,
        over: false,
      });
    }
  });
  const clock = new VirtualClock();
  let turns = 0;
  const counted: Clock = {
    unixEpochMs: clock.unixEpochMs,
    now: () => clock.now(),
    timer: (ms, fire) => clock.timer(ms, fire),
    sleep: (ms, signal) => {
      if (ms === 0) turns++;
      return clock.sleep(ms, signal);
    },
  };
  const threads = new EncoderThreads({ files, start, clock: counted });
  const long = "word ".repeat(200_000);
  const { ids } = await clock.run(() => threads.encode({ text: long }, { behind: [7, 8] }));
  assert.equal(text, long);
  assert.deepEqual([ids.length, ids[0], ids[1], ids[2], ids.at(-1)], [COUNT + 2, 7, 8, 0, COUNT - 1]);
  assert.ok(parts >= 3, `${parts} parts`);
  assert.equal(turns, parts + Math.floor((COUNT - 1) / (64 * 1024)));
});
