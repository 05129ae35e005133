import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../properties.ts";
import { FeedWriter } from "../../../../router/moa/exit/feed_writer.ts";
import { answerSoFar, answerText } from "../../../../router/moa/prompt/answer.ts";
import { FakeScorer } from "../fake_scorer.ts";

const graph = { compat: undefined, stripReasoning: true } as const;
const piece = fc.oneof(
  { weight: 8, arbitrary: fc.string({ maxLength: 30 }) },
  fc.constantFrom("<think>", "</think>", "</th", "ink>", " \n", "<", "a<b "),
);

test("however an output comes and whatever is reasoning in it, the scorer gets the answer that successors read", () => {
  fc.assert(fc.property(fc.array(piece, { maxLength: 60 }), fc.boolean(), (pieces, reasonsFirst) => {
    const scorer = new FakeScorer();
    const writer = new FeedWriter(scorer, "run/agent");
    let output = "";
    for (const next of pieces) {
      output += next;
      writer.grew(output, (text) => answerSoFar(text, graph, reasonsFirst));
    }
    writer.end(answerText(output, graph));
    assert.ok(writer.id !== undefined);
    assert.equal(scorer.text(writer.id), answerText(output, graph));
    writer.close();
    assert.deepEqual(scorer.left, []);
  }));
});

test("the work of feeding an answer grows with its length, not with its square", () => {
  let looked = 0;
  const writer = new FeedWriter(new FakeScorer(), "run/agent");
  let output = "";
  for (let token = 0; token < 50_000; token++) {
    output += "word ";
    writer.grew(output, (text) => {
      looked++;
      return text;
    });
  }
  // Every 32 characters at first; then 256 times for each doubling or so.
  assert.ok(looked > 500 && looked < 1500, `${looked} times`);
});
