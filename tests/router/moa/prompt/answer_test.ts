import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../properties.ts";
import { answerSoFar, answerText, stripReasoning } from "../../../../router/moa/prompt/answer.ts";

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

test("an answer that is still being written begins the whole one, at every character", () => {
  const piece = fc.constantFrom("<think>", "</think>", "<", "/", "a", "\n", " ", "think>");
  const rules = fc.record({
    compat: fc.constantFrom(undefined, "moa-vllm" as const),
    stripReasoning: fc.boolean(),
  });
  fc.assert(fc.property(fc.array(piece), rules, (pieces, graph) => {
    const output = pieces.join("");
    const close = output.indexOf("</think>");
    const open = output.indexOf("<think>");
    const reasonsFirst = close >= 0 && (open < 0 || close < open);
    for (let end = 0; end <= output.length; end++) {
      const soFar = answerSoFar(output.slice(0, end), graph, reasonsFirst);
      assert.ok(answerText(output, graph).startsWith(soFar), JSON.stringify([output, end, soFar]));
    }
  }));
});
