import assert from "node:assert/strict";
import { test } from "node:test";
import { resumeAnswer, type ResumedAnswer } from "../../../../router/moa/agent/resumed_answer.ts";
import type { GenerateEvent } from "../../../../router/engines/engine.ts";
import type { ModelTokenizer } from "../../../../ml/tokenizers/model_tokenizer.ts";
import { builtinTokenizer } from "../../../../simulator/server/backend.ts";

const tokenizer: ModelTokenizer = builtinTokenizer();
const worker = { workerId: "w", url: "http://w" };
const usage = { promptTokens: 3, completionTokens: 4, cachedTokens: 1 };

/** A part of an answer behind the tokens of `before`, of which `shown` is out. */
function part(before: string, shown: string, stop?: string): ResumedAnswer {
  const tokenIds = tokenizer.encode(before);
  const answer = resumeAnswer({
    prompt: { kind: "tokens", ids: tokenizer.encode("So: ") },
    sampling: { max_tokens: 90, ...(stop === undefined ? {} : { stop: [stop] }) },
    log: { text: shown, reasoning: "", tokens: tokenIds.length, tokenIds },
    usage: undefined,
    tokenizer,
    engine: "vllm",
    open: true,
  });
  if (typeof answer === "string") throw new Error(answer);
  return answer;
}

function deltas(ids: readonly number[]): GenerateEvent[] {
  return ids.map((id) => ({ type: "delta", text: "?", tokenIds: [id] }));
}

function readAll(answer: ResumedAnswer, events: readonly GenerateEvent[]) {
  const all = events.flatMap((event) => answer.take(event, worker));
  const pieces = all.filter((event) => event.type === "delta");
  return {
    text: pieces.map(({ text }) => text).join(""),
    ids: pieces.flatMap(({ tokenIds = [] }) => tokenIds),
    end: all.at(-1),
  };
}

test("a part of an answer keeps the model's own end out of it, so that it can be gone on with", () => {
  const ids = tokenizer.encode("four words and more");
  const end: GenerateEvent = { type: "end", finishReason: "stop", usage };
  const read = readAll(part("", ""), [...deltas([...ids, 2]), end]);
  assert.equal(read.text, "four words and more");
  assert.deepEqual(read.ids, ids);
  assert.equal(read.end?.type === "end" && read.end.finishReason, "stop");
});

test("half a character and half a stop string stay back where a part ends, and come with the next one", () => {
  const whole = tokenizer.encode("a \u{1f600} b");
  const cut = whole.findIndex((_, index) => tokenizer.decode(whole.slice(0, index + 1)).includes("\ufffd")) +
    1;
  const length: GenerateEvent = { type: "end", finishReason: "length", usage };
  const first = readAll(part("", ""), [...deltas(whole.slice(0, cut)), length]);
  assert.ok(!first.text.includes("\ufffd"), first.text);
  const answer = resumeAnswer({
    prompt: { kind: "tokens", ids: tokenizer.encode("Another prompt: ") },
    sampling: { max_tokens: 90 },
    log: { text: first.text, reasoning: "", tokens: first.ids.length, tokenIds: first.ids },
    usage: undefined,
    tokenizer,
    engine: "vllm",
  });
  assert.ok(typeof answer !== "string");
  const second = readAll(answer, [...deltas(whole.slice(cut)), length]);
  assert.equal(first.text + second.text, "a \u{1f600} b");

  const begun = readAll(part("", "", "STOP"), [...deltas(tokenizer.encode("on ST")), length]);
  assert.equal(begun.text, "on ");
  const rest = readAll(part("on ST", "on ", "STOP"), [...deltas(tokenizer.encode("OP now")), length]);
  assert.equal(rest.text, "");
  assert.equal(rest.end?.type === "end" && rest.end.stopReason, "STOP");
});
