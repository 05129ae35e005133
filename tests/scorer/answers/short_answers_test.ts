import assert from "node:assert/strict";
import { test } from "node:test";
import { equalAnswers } from "../../../scorer/answers/equal_answers.ts";
import { findBoxed } from "../../../scorer/answers/boxed.ts";
import { readAnswer } from "../../../scorer/answers/read_answer.ts";

const read = (text: string) => readAnswer(text, "What is it?")!;

test("thousands may be set off in a fraction, too", () => {
  for (const text of ["1,000 / 3", "1,000/3", "\\frac{1000}{3}"]) {
    assert.equal(findBoxed(`\\boxed{${text}}`, "")?.value, "number:1000/3", text);
  }
  assert.equal(read("12 / 1,500").value, "number:1/125");
  assert.equal(read("1,234,567 / 7").value, "number:1234567/7");
  assert.equal(read("1, 2").form.kind, "list");
});

test("behind a number, in parentheses, stands how it is made, where that comes to it; else the two are multiplied", () => {
  for (const text of ["12 (3 + 9)", "12 (4 * 3)", "$12$ ($3 + 9$)"]) {
    assert.equal(read(text).value, "number:12", text);
  }
  assert.ok(equalAnswers(read("3 (4 + 5)"), read("27")));
  assert.ok(!equalAnswers(read("12 (3 + 9)"), read("144")));
});

test("a date is no difference and no quotient", () => {
  for (
    const [date, other] of [["2024-01-15", "2008"], ["01/02/2024", "1/4048"], ["15.1.2024", "15"]] as const
  ) {
    assert.equal(read(date).form.kind, "text", date);
    assert.ok(!equalAnswers(read(date), read(other)), date);
    assert.ok(equalAnswers(read(date), read(date)));
  }
  assert.equal(read("2024 - 1 - 15").form.kind, "formula");
  assert.equal(read("10-4-2").form.kind, "formula");
});
