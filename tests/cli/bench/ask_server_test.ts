import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { askServer } from "../../../cli/bench/eval/ask_server.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";

const utf8 = new TextEncoder();

/** Asks a graph whose server says "one two" in two pieces, and then for a while that it has ended; gives answer and paths. */
async function asked(record: string | undefined) {
  const clock = new VirtualClock();
  const paths: string[] = [];
  const chunk = (delta: object, more: object = {}) =>
    utf8.encode(`data: ${JSON.stringify({ choices: [{ delta, finish_reason: null, ...more }] })}\n\n`);
  async function* stream() {
    await clock.sleep(100);
    yield chunk({ content: "one " });
    await clock.sleep(30);
    yield chunk({ content: "two" });
    await clock.sleep(5);
    yield chunk({}, { finish_reason: "stop" });
    // Until no engine works for the run any more.
    await clock.sleep(700);
    const usage = {
      prompt_tokens: 50,
      completion_tokens: 40,
      completion_tokens_details: { answer_tokens: 2 },
    };
    yield utf8.encode(`data: ${JSON.stringify({ choices: [], usage, canopy: { run_id: "r1" } })}\n\n`);
    yield utf8.encode("data: [DONE]\n\n");
  }
  async function* whole(text: string) {
    await Promise.resolve();
    yield utf8.encode(text);
  }
  const transport = new MemoryTransport(() => ({ url }) => {
    paths.push(new URL(url).pathname);
    const headers = { "x-canopy-run-id": "r1" };
    if (url.endsWith("/chat/completions")) return Promise.resolve({ status: 200, headers, body: stream() });
    const status = record === undefined ? 404 : 200;
    return Promise.resolve({ status, headers: {}, body: whole(record ?? '{"error":{"message":"gone"}}') });
  });
  const target = {
    id: "moa",
    simulated: true,
    graph: true,
    server: { url: "http://s", apiKey: undefined },
    model: "moa",
    again: false,
  } as const;
  const ask = askServer(new Map([["moa", target]]), { maxTokens: 8, timeoutMs: 60_000 }, {
    transport,
    clock,
  });
  const signal = new AbortController().signal;
  const answer = await clock.run(() => ask("moa", { messages: [] }, { seed: 1, run: true, signal }));
  return { answer, paths };
}

test("An answer's time ends with its last word, not with the counts that follow when all engines have stopped", async () => {
  const { answer } = await asked(undefined);
  assert.deepEqual([answer.ttftMs, answer.latencyMs, answer.text], [100, 135, "one two"]);
  assert.deepEqual([answer.answerTokens, answer.completionTokens, answer.gaps?.max], [2, 40, 30]);
});

test("The record of a graph's run is read behind its answer, and an answer whose run is not shown is one all the same", async () => {
  const shown = await asked(JSON.stringify({ id: "r1", agents: [], events: [], usage: { agents: [] } }));
  assert.deepEqual(shown.paths, ["/v1/chat/completions", "/v1/runs/r1"]);
  assert.deepEqual(shown.answer.run, { id: "r1", agents: [], decisions: [], warms: [] });
  assert.equal((await asked(undefined)).answer.run, undefined);
  assert.equal((await asked('"no record"')).answer.run, undefined);
});
