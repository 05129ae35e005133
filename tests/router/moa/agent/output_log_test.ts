import assert from "node:assert/strict";
import { test } from "node:test";
import { type News, OutputLog } from "../../../../router/moa/agent/output_log.ts";

const forever = new AbortController().signal;

/** Lets all readers look. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

async function texts(log: OutputLog): Promise<string[]> {
  const read: string[] = [];
  for await (const news of log.read(forever)) read.push(news.text);
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

test("readers that come early, in the middle and late read the same, each as much at a time as there is", async () => {
  const log = new OutputLog();
  const early = texts(log);
  log.append({ type: "delta", text: "a" });
  await turn();
  const middle = texts(log);
  log.append({ type: "delta", text: "b" });
  await turn();
  log.append({ type: "delta", text: "c" });
  log.append({ type: "delta", text: "d" });
  log.end();
  log.append({ type: "delta", text: "after the end" });
  assert.deepEqual(await early, ["a", "b", "cd"]);
  assert.deepEqual(await middle, ["a", "b", "cd"]);
  assert.deepEqual(await texts(log), ["abcd"]);
  assert.equal(log.text, "abcd");
});

test("news hold ids, reasoning and log-probabilities, those of tokens without text, too", async () => {
  const log = new OutputLog();
  const read: News[] = [];
  const done = (async () => {
    for await (const news of log.read(forever)) read.push(news);
  })();
  log.append({ type: "delta", text: "", tokenIds: [1] });
  await turn();
  log.append({ type: "delta", text: "x", reasoning: "hm", tokenIds: [2, 3] });
  log.append({ type: "delta", text: "y", logprobs: [{ token: "y", logprob: -1 }] });
  log.end();
  await done;
  assert.deepEqual(read, [
    { text: "", reasoning: "", tokenIds: [1], logprobs: [] },
    { text: "xy", reasoning: "hm", tokenIds: [2, 3], logprobs: [{ token: "y", logprob: -1 }] },
  ]);
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

test("subscribers hear of new tokens right when they come, and of nothing after the end", () => {
  const log = new OutputLog();
  const heard: [number, string][] = [];
  log.subscribe((tokens) => heard.push([tokens, log.text]));
  log.append({ type: "delta", text: "ab", tokenIds: [1, 2] });
  log.append({ type: "delta", text: "" });
  log.append({ type: "delta", text: "c" });
  log.end();
  log.append({ type: "delta", text: "d" });
  assert.deepEqual(heard, [[2, "ab"], [1, "abc"]]);
});

test("a log begins anew until a reader has had some of it, and counts that", async () => {
  const log = new OutputLog();
  log.append({ type: "delta", text: "ab", tokenIds: [1, 2] });
  assert.deepEqual([log.isRead, log.restart(), log.restarts], [false, true, 1]);
  assert.deepEqual([log.text, log.tokens, log.tokenIds], ["", 0, []]);
  log.append({ type: "delta", text: "c" });
  const read = texts(log);
  await turn();
  assert.deepEqual([log.isRead, log.restart(), log.restarts], [true, false, 1]);
  log.end();
  assert.deepEqual(await read, ["c"]);
});
