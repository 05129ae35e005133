import assert from "node:assert/strict";
import { test } from "node:test";
import { laboratoryQuestions } from "../../../bench/datasets/laboratory/laboratory_questions.ts";
import type { LaboratoryQuestion } from "../../../bench/datasets/laboratory/question.ts";
import { answerRulesSchema } from "../../../cfgs/schema/early_exit.ts";
import { equalAnswers } from "../../../scorer/answers/equal_answers.ts";
import { answerExtractor } from "../../../scorer/answers/extract.ts";
import { streamedAnswer } from "../../../scorer/answers/streamed_answer.ts";

const SPLITS = ["train", "tune", "test"] as const;
const COUNT = 1_200;

const bySplit = Object.fromEntries(
  SPLITS.map((split) => [split, laboratoryQuestions({ split, count: COUNT, seed: "test" })]),
);

function drawn(split: (typeof SPLITS)[number]): readonly LaboratoryQuestion[] {
  return bySplit[split]!;
}

/** The value of `a+b`, `a-b`, `a*b` or `a/b`. */
function valueOf(left: number, sign: string, right: number): number {
  return sign === "+"
    ? left + right
    : sign === "-"
    ? left - right
    : sign === "*"
    ? left * right
    : left / right;
}

test("every equation of a solution holds, and the last one gives the story's answer", () => {
  for (const { kind, solution, answer } of drawn("train")) {
    const equations = [...solution.matchAll(/(\d+)([-+*/])(\d+)=(\d+)/g)];
    for (const [text, left, sign, right, result] of equations) {
      assert.equal(valueOf(Number(left), sign!, Number(right)), Number(result), text);
    }
    if (kind === "story") assert.equal(equations.at(-1)?.[4], answer, solution);
  }
});

test("a choice's answer says rightly how the story's result compares with the number that is asked about", () => {
  for (const { kind, question, solution, answer } of drawn("test")) {
    if (kind !== "choice") continue;
    const [, result, steps, is, limit] =
      /=(\d+)\. Is \1 (?:above|below) \d+\? ([\d is,abovelw]+)\. \1 is (above|below) (\d+)\. The answer is \w+\.$/
        .exec(solution)!;
    assert.equal(is, Number(result) > Number(limit) ? "above" : "below");
    const digits = Math.max(result!.length, limit!.length);
    const [own, other] = [result!.padStart(digits, "0"), limit!.padStart(digits, "0")];
    const read = steps!.split(", ").map((step) => /^(\d) is (?:(above|below) )?(\d)$/.exec(step)!);
    for (const [at, [, one, relation, two]] of read.entries()) {
      assert.deepEqual([one, two], [own[at], other[at]], solution);
      const last = at === read.length - 1;
      assert.equal(relation, last ? is : undefined, solution);
      assert.equal(one === two, !last, solution);
    }
    const asked = /(more than|above|less than|below) (\d+)\D+$/.exec(question)!;
    assert.equal(asked[2], limit);
    const yes = ["more than", "above"].includes(asked[1]!) === (is === "above");
    assert.equal(answer, yes ? "yes" : "no");
  }
});

test("every number of a solution's first step stands in its question", () => {
  for (const { kind, question, solution } of drawn("tune")) {
    if (kind !== "story") continue;
    const first = /\d+/.exec(solution)![0];
    assert.match(question, new RegExp(`\\b${first}\\b`));
  }
});

test("no two splits share a template, the numbers of a question, or a question", () => {
  for (const part of ["template", "numbers", "question"] as const) {
    const found = SPLITS.map((split) => new Set(drawn(split).map((question) => question[part])));
    for (const [index, ones] of found.entries()) {
      for (const others of found.slice(index + 1)) {
        assert.deepEqual([...ones].filter((one) => others.has(one)), []);
      }
    }
  }
});

test("the same draw gives the same questions, another seed others", () => {
  const draw = { split: "test", count: 200, seed: "test" } as const;
  assert.deepEqual(laboratoryQuestions(draw), drawn("test").slice(0, 200));
  const others = new Set(laboratoryQuestions({ ...draw, seed: "other" }).map(({ question }) => question));
  assert.ok(drawn("test").filter(({ question }) => others.has(question)).length < 20);
});

test("questions differ, have several steps, and come in both kinds and all levels", () => {
  const questions = drawn("test");
  assert.equal(new Set(questions.map(({ question }) => question)).size, COUNT);
  assert.equal(new Set(questions.map(({ id }) => id)).size, COUNT);
  assert.ok(new Set(questions.map(({ template }) => template)).size > 300);
  for (const kind of ["story", "choice"]) {
    for (const level of [1, 2, 3, 4]) {
      assert.ok(questions.filter((one) => one.kind === kind && one.level === level).length > 50);
    }
  }
  const only = laboratoryQuestions({ split: "tune", count: 50, seed: "1", kind: "choice", level: 3 });
  assert.ok(only.every(({ kind, level }) => kind === "choice" && level === 3));
});

test("the project's own extraction reads the answer of every solution, whole and while it is written", () => {
  const extract = answerExtractor(answerRulesSchema.parse({}));
  for (const { question, solution, answer, kind } of drawn("test")) {
    const found = extract(solution, question);
    const gold = extract(`The answer is ${answer}.`, question);
    assert.ok(found !== undefined && gold !== undefined && equalAnswers(found, gold), solution);
    assert.equal(found.kind, kind === "choice" ? "choice" : found.kind);
    assert.deepEqual(streamedAnswer(extract, `${solution}\n`, question), found);
  }
});
