import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { answerText, stripReasoning } from "../../../../router/moa/prompt/answer.ts";

test("reasoning blocks are removed wherever they stand", () => {
  for (
    const [text, expected] of [
      ["<think>hm</think>\n\n42", "42"],
      ["<think>\nhm\n</think>42<think>again</think> done", "42 done"],
      ["the template opened it</think>\n42", "42"],
      ["opened</think>4<think>x</think>2", "42"],
      ["42 <think>never closed", "42"],
      ["<think>never closed", ""],
      ["  plain \n", "plain"],
      ["<think></think>", ""],
      ["a < b > c <thinking>", "a < b > c <thinking>"],
    ] as const
  ) assert.equal(stripReasoning(text), expected, text);
});

test("what is left of a text never holds an opened block", () => {
  const piece = fc.constantFrom("<think>", "</think>", "a", "\n");
  fc.assert(fc.property(fc.array(piece), (pieces) => {
    assert.ok(!stripReasoning(pieces.join("")).includes("<think>"));
  }));
});

test("a graph decides whether successors read reasoning; MoA-vllm's read everything", () => {
  const text = " <think>x</think> y ";
  assert.equal(answerText(text, { compat: undefined, stripReasoning: true }), "y");
  assert.equal(answerText(text, { compat: undefined, stripReasoning: false }), "<think>x</think> y");
  assert.equal(answerText(text, { compat: "moa-vllm", stripReasoning: true }), text);
});
