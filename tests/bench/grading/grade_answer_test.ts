import assert from "node:assert/strict";
import { test } from "node:test";
import type { EvalQuestion } from "../../../bench/datasets/data_set.ts";
import { gradeAnswer } from "../../../bench/grading/grade_answer.ts";

type Expected = Readonly<Record<"right" | "wrong" | "ungradable", readonly string[]>>;

async function assertOutcomes(
  question: Omit<EvalQuestion, "id" | "question">,
  expected: Expected,
): Promise<void> {
  for (const [outcome, texts] of Object.entries(expected)) {
    for (const text of texts) {
      const grade = await gradeAnswer({ id: "1", question: "?", ...question }, text);
      assert.equal(grade.outcome, outcome, text);
    }
  }
}

test("A choice is read from a box, an announcement or the last line, as a letter or as the option's text", async () => {
  await assertOutcomes({
    grader: "choice",
    answer: "C",
    options: ["one cat", "two cats", "three cats", "a dog"],
  }, {
    right: [
      "C",
      "(C)",
      "c)",
      "Answer: C",
      "**Answer:** C) three cats",
      "The answer is (C) three cats.",
      "The correct answer is option C, because of the cats.",
      "\\boxed{C}",
      "\\boxed{\\text{(C)}}",
      "First I thought A.\nThe best answer is C",
      "The answer is three cats.",
      "<think>B? The answer is B</think>The answer is C.",
      "Final answer: **C**",
    ],
    wrong: ["B", "The answer is (D).", "The answer is a dog.", "\\boxed{A}", "Answer: C? No.\nAnswer: B"],
    ungradable: [
      "",
      "I do not know.",
      "The answer is B or C.",
      "The answer is A, C",
      "The answer is E.",
      "A dog would be nice",
      "<think>The answer is C",
      "Cats are animals.",
    ],
  });
});

test("An exact answer is compared without case, blanks and marks; of yes and no the first word decides", async () => {
  await assertOutcomes({ grader: "exact", answer: "apple blanket meadow" }, {
    right: [
      "The answer is apple blanket meadow.",
      "So:\napple  blanket Meadow",
      "\\boxed{apple blanket meadow}",
    ],
    wrong: ["The answer is apple meadow blanket.", "apple blanket"],
    ungradable: ["", "I would begin with the words and look at each letter of them in turn, first to last"],
  });
  await assertOutcomes({ grader: "exact", answer: "> )" }, {
    right: ["The answer is > )"],
    wrong: ["> ]"],
    ungradable: [""],
  });
  await assertOutcomes({ grader: "exact", answer: "Yes" }, {
    right: ["Yes", "The answer is **yes**, as they return.", "yes."],
    wrong: ["No", "The answer is no."],
    ungradable: ["Perhaps", "The answer is maybe", ""],
  });
  await assertOutcomes({ grader: "exact", answer: "valid" }, {
    right: ["The answer is valid."],
    wrong: ["The answer is invalid."],
    ungradable: ["It depends"],
  });
});
