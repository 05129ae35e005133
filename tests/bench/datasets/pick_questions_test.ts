import assert from "node:assert/strict";
import { test } from "node:test";
import type { EvalQuestion } from "../../../bench/datasets/data_set.ts";
import { pickQuestions } from "../../../bench/datasets/pick_questions.ts";

const questions = Array.from({ length: 120 }, (_, index): EvalQuestion => ({
  id: String(index),
  question: "?",
  answer: "1",
  grader: "number",
  subject: index < 80 ? "large" : index < 110 ? "middle" : "small",
}));
const idsOf = (samples: number | undefined, seed: string, from = questions) =>
  pickQuestions(from, { samples, seed }).map(({ id }) => id);

test("The seed alone fixes the order of questions, and more of them begin with fewer", () => {
  const all = idsOf(undefined, "a");
  assert.deepEqual([...all].sort(), questions.map(({ id }) => id).sort());
  assert.deepEqual(idsOf(undefined, "a", [...questions].reverse()), all);
  for (const samples of [1, 7, 60]) assert.deepEqual(idsOf(samples, "a"), all.slice(0, samples));
  assert.notDeepEqual(idsOf(undefined, "b"), all);
});

test("Each subject has its share of a part, whatever the seed", () => {
  for (const seed of ["a", "b", "c", "d"]) {
    const part = pickQuestions(questions, { samples: 24, seed });
    const count = (subject: string) => part.filter((question) => question.subject === subject).length;
    assert.ok(Math.abs(count("large") - 16) <= 1, `${seed}: ${count("large")}`);
    assert.ok(Math.abs(count("middle") - 6) <= 1, `${seed}: ${count("middle")}`);
    assert.ok(count("small") >= 1);
  }
});

test("Questions are picked by their ids, and an unknown id is named", () => {
  const picked = pickQuestions(questions, { seed: "a", ids: ["7", "3", "7"] });
  assert.deepEqual(picked.map(({ id }) => id), ["7", "3"]);
  assert.throws(() => pickQuestions(questions, { seed: "a", ids: ["x"] }), /No question has the id "x"/);
});
