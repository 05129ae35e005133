import { test } from "node:test";
import assert from "node:assert/strict";
import { OutputLog } from "../../../router/moa/output_log.ts";

const forever = new AbortController().signal;

async function texts(log: OutputLog, from?: number): Promise<string[]> {
  const read: string[] = [];
  for await (const delta of log.read(forever, from)) read.push(delta.text);
  return read;
}

test("a log adds up text, reasoning, token ids and log-probabilities", () => {
  const log = new OutputLog();
  log.append({ type: "delta", text: "", tokenIds: [1] });
  log.append({
    type: "delta",
    text: "ab",
    reasoning: "hm",
    tokenIds: [2, 3],
    logprobs: [{ token: "b", logprob: -1 }],
  });
  log.append({ type: "delta", text: "c" });
  assert.equal(log.text, "abc");
  assert.equal(log.reasoning, "hm");
  assert.deepEqual(log.tokenIds, [1, 2, 3]);
  assert.deepEqual(log.logprobs, [{ token: "b", logprob: -1 }]);
  assert.equal(log.tokens, 4);
});

test("readers that come early, late and in the middle read the same pieces, from where they want", async () => {
  const log = new OutputLog();
  const early = texts(log);
  log.append({ type: "delta", text: "a" });
  await Promise.resolve();
  const middle = texts(log, 1);
  log.append({ type: "delta", text: "b" });
  log.append({ type: "delta", text: "c" });
  log.end();
  log.append({ type: "delta", text: "after the end" });
  assert.deepEqual(await early, ["a", "b", "c"]);
  assert.deepEqual(await middle, ["b", "c"]);
  assert.deepEqual(await texts(log, 2), ["c"]);
  assert.deepEqual(await texts(log, 9), []);
});

test("a reader that is told to stop throws the reason, and the others read on", async () => {
  const log = new OutputLog();
  const controller = new AbortController();
  const stopped = (async () => {
    for await (const _delta of log.read(controller.signal));
  })();
  const other = texts(log);
  log.append({ type: "delta", text: "a" });
  const reason = new Error("stop");
  controller.abort(reason);
  await assert.rejects(stopped, reason);
  log.end();
  assert.deepEqual(await other, ["a"]);
});

test("an output beyond all reason is refused", () => {
  const log = new OutputLog();
  const text = "x".repeat(1024 * 1024);
  assert.throws(() => {
    for (let i = 0; i < 20; i++) log.append({ type: "delta", text });
  }, { code: "answer_too_long", status: 502 });
  assert.ok(log.text.length <= 16 * 1024 * 1024);
});
