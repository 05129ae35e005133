import assert from "node:assert/strict";
import { test } from "node:test";
import { answerRulesSchema } from "../../../cfgs/schema/early_exit.ts";
import { answerExtractor } from "../../../scorer/answers/extract.ts";
import { streamedAnswer, wholeSentences } from "../../../scorer/answers/streamed_answer.ts";
import { fc } from "../../properties.ts";

const extract = answerExtractor(answerRulesSchema.parse({}));
const QUESTION = "How many apples are left?";
const valueOf = (text: string) => streamedAnswer(extract, text, QUESTION)?.value.replace("number:", "");

test("an answer that is announced counts as soon as its sentence has ended", () => {
  const cases: [string, string | undefined][] = [
    ["She has 3 + 4 = 7 apples. ", undefined],
    ["The answer is 4", undefined],
    ["The answer is 42.", undefined],
    ["The answer is 42.5", undefined],
    ["The answer is 42. ", "42"],
    ["The answer is 42.\nSo", "42"],
    ["So it is \\boxed{17}", undefined],
    ["So it is $\\boxed{17}$.\n", "17"],
    ["So it is \\boxed{17", undefined],
    ["Sum up:\n#### 12", undefined],
    ["Sum up:\n#### 12\n", "12"],
    ["**Final answer:** 9 apples.\n\nExpl", "9"],
    ["The result is 5. We now divide by 2. ", undefined],
    ["The answer is 42. Wait, that is wrong. ", undefined],
    ["The answer is 42. Wait, no: the answer is 40. ", "40"],
    ["", undefined],
  ];
  for (const [text, value] of cases) assert.equal(valueOf(text), value, JSON.stringify(text));
});

test("what counts while a text is written is what counts at its end, wherever the text is cut", () => {
  const word = fc.constantFrom(
    "apples",
    "3",
    "so",
    "7.5",
    "=",
    "pears.",
    "12,000",
    "x",
    "left",
    "\n",
    "half",
  );
  const before = fc.array(word, { maxLength: 30 }).map((words) => words.join(" "));
  const ending = fc.integer({ min: 0, max: 99_999 }).chain((n) =>
    fc.constantFrom(`The answer is ${n}.`, `#### ${n}\n`, `It is \\boxed{${n}}.`, `**Answer:** ${n}\n`)
  );
  fc.assert(fc.property(before, ending, fc.integer({ min: 0, max: 400 }), (start, end, cut) => {
    const whole = `${start}\n\n${end}`;
    const final = extract(whole, QUESTION)?.value.replace("number:", "");
    const early = valueOf(whole.slice(0, cut));
    assert.ok(early === undefined || early === final, `${early} of ${final}`);
    assert.equal(valueOf(`${whole} \n`), final);
  }));
});

test("the part that can be given ends with a whole sentence or line", () => {
  assert.equal(wholeSentences("One. Two is 3.5"), "One.");
  assert.equal(wholeSentences("One\nTw"), "One");
  assert.equal(wholeSentences("One"), "");
});

test("a long text is read in a bounded part of it", () => {
  const text = `${"The answer is 1. ".repeat(100_000)}The answer is 2.\n`;
  assert.equal(valueOf(text), "2");
});
