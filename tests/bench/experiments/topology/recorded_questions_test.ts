import assert from "node:assert/strict";
import { test } from "node:test";
import { placeSeed } from "../../../../bench/experiments/graphs.ts";
import { STATED_TOKENS } from "../../../../bench/experiments/scripted_answers.ts";
import {
  type RecordedAnswer,
  recordedQuestions,
  spokenRecords,
} from "../../../../bench/experiments/topology/recorded_questions.ts";

function answer(question: string, model: string, said: string, completionTokens = 100): RecordedAnswer {
  const stated = said === "" ? undefined : said;
  return { question, model, right: said === "7", stated, promptTokens: 40, completionTokens };
}

test("questions that some model has answered less often are left out and counted", () => {
  const answers = [
    ...["7", "8"].flatMap((said) => [answer("a", "s", said), answer("a", "l", said)]),
    ...["7", "8"].flatMap((said) => [answer("b", "s", said)]),
    answer("b", "l", "7"),
    answer("c", "s", "7"),
  ];
  const { questions, repeats, left } = recordedQuestions(answers, ["s", "l"]);
  assert.deepEqual([questions.length, repeats, left], [1, 2, 2]);
  assert.deepEqual(
    [recordedQuestions(answers, ["s"]).questions.length, recordedQuestions([], ["s"]).repeats],
    [2, 0],
  );
});

test("agents that read nobody give each another recorded answer, as long as it was; equal answers stay equal", () => {
  const said = ["7", "8", "8", "", ""];
  const all = said.map((one, at) => answer("a", "s", one, 100 + at));
  const [question] = spokenRecords(recordedQuestions(all, ["s"]).questions, "test");
  assert.ok(question !== undefined);
  const places = said.map((_, index) => ({ layer: 0, index, model: "s" }));
  const given = places.map((place) => question.answerOf("s", placeSeed(place), []));
  assert.equal(given.filter((one) => one === question.right).length, 1);
  assert.equal(new Set(given).size, 4, "two are equal, and two that state nothing agree with nobody");
  assert.deepEqual(
    places.map((place) => question.answerTokens(place) + STATED_TOKENS).sort(),
    [100, 101, 102, 103, 104],
  );
  assert.equal(question.tokens, 40);
  const followed = Array.from(
    { length: 40 },
    (_, index) => question.answerOf("s", placeSeed({ layer: 1, index }), ["5", "5", "6"]),
  );
  assert.ok(followed.filter((one) => one === "5").length > 25);
  assert.ok(
    question.text.startsWith("Question 0:") && question.textOf("s", 100, []).endsWith(`${given[0]}.`),
  );
});
