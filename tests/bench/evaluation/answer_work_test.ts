import assert from "node:assert/strict";
import { test } from "node:test";
import { type AnswerWork, answerWork, workOfAll } from "../../../bench/evaluation/answer_work.ts";

const graph = {
  usage: {
    calls: 4,
    completion_tokens: 90,
    cached_tokens: 40,
    wasted_tokens: 5,
    saved_tokens_estimate: 7,
    cost: 0.5,
    models: [{ model: "s", calls: 3, prompt_tokens: 70, cached_tokens: 40, completion_tokens: 60 }, {
      model: "l",
      calls: 1,
      prompt_tokens: 100,
      cached_tokens: null,
      completion_tokens: 30,
    }],
  },
};

test("The work of a graph's answer is that of all its agents, and a model's is its own", () => {
  const work: AnswerWork = {
    graph: true,
    calls: 4,
    cachedTokens: 40,
    wastedTokens: 5,
    savedTokens: 7,
    cost: 0.5,
    models: {
      s: { calls: 3, promptTokens: 70, cachedTokens: 40, completionTokens: 60 },
      l: { calls: 1, promptTokens: 100, cachedTokens: null, completionTokens: 30 },
    },
  };
  assert.deepEqual(answerWork("moa", {}, graph), work);
  const usage = { prompt_tokens: 20, completion_tokens: 30, prompt_tokens_details: { cached_tokens: 8 } };
  const single = answerWork("l", usage, undefined);
  assert.deepEqual(single, {
    calls: 1,
    cachedTokens: 8,
    wastedTokens: 0,
    savedTokens: 0,
    cost: null,
    models: { l: { calls: 1, promptTokens: 20, cachedTokens: 8, completionTokens: 30 } },
  });
  assert.deepEqual(answerWork("l", {}, { run_id: "x" }).cachedTokens, null, "nothing tells it");
  assert.deepEqual(workOfAll([work, single]), {
    graph: true,
    calls: 5,
    cachedTokens: 48,
    wastedTokens: 5,
    savedTokens: 7,
    cost: null,
    models: {
      l: { calls: 2, promptTokens: 120, cachedTokens: null, completionTokens: 60 },
      s: { calls: 3, promptTokens: 70, cachedTokens: 40, completionTokens: 60 },
    },
  });
  assert.equal(workOfAll([work, undefined]), undefined);
  assert.equal(workOfAll([]), undefined);
});
