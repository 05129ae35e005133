import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { DATA_SETS } from "../../../bench/datasets/catalog.ts";
import { loadSample } from "../../../bench/datasets/load_questions.ts";
import { equalMaths } from "../../../bench/grading/maths/equal_maths.ts";
import { gradeMaths, gradeNumber } from "../../../bench/grading/maths/grade_maths.ts";
import { statedMaths } from "../../../bench/grading/maths/stated_maths.ts";

const fixture = (name: string) =>
  readFileSync(new URL(`../../fixtures/grading/${name}`, import.meta.url), "utf8");
const wrongPairs: readonly (readonly [gold: string, stated: string])[] = JSON.parse(
  fixture("wrong_pairs.json"),
);

interface PeerCase {
  readonly test: string;
  readonly gold: string;
  readonly stated: string;
  readonly right: boolean;
}

test("None of 490 wrong answers that look like the right one is accepted, boxed or announced", () => {
  assert.ok(wrongPairs.length >= 300);
  const accepted = wrongPairs.flatMap(([answer, stated]) =>
    [`So the answer is $\\boxed{${stated}}$.`, `The answer is $${stated}$`].filter((text) =>
      gradeMaths({ question: "", answer }, text).outcome === "right"
    ).map((text) => `${answer}: ${text}`)
  );
  assert.deepEqual(accepted, []);
});

test("The right answers of those pairs are right as they are", () => {
  const refused = [...new Set(wrongPairs.map(([answer]) => answer))].filter((answer) =>
    gradeMaths({ question: "", answer }, `We find $\\boxed{${answer}}$`).outcome !== "right"
  );
  assert.deepEqual(refused, []);
});

/** Cases of Math-Verify's own tests that this grader accepts and that one does not: both sides say the same. */
const EQUAL_ALL_THE_SAME = [
  "latex_notation: $9$ ~ Answer $ 9 $",
  "latex_notation: $9$ ~ Answer \\( 9 \\)",
  "set_rel_assymetry: $x \\in [-2,7]$ ~ $-2 \\\\le x \\\\le 7$",
];

test("At least 95 % of Math-Verify's 268 cases come out as there, and what is accepted beyond them is equal", () => {
  const { cases }: { cases: readonly PeerCase[] } = JSON.parse(fixture("math_verify.json"));
  assert.equal(cases.length, 268);
  let same = 0;
  const accepted: string[] = [];
  for (const { test, gold, stated, right } of cases) {
    const golds = statedMaths(gold);
    const found = golds.length > 0 && equalMaths(golds.join(", "), statedMaths(stated), "");
    if (found === right) same++;
    else if (found) {
      accepted.push(`${test.split("/")[1]}: ${gold} ~ ${stated.replaceAll(/\s+/g, " ")}`);
    }
  }
  assert.ok(same >= 255, `${same} of ${cases.length}`);
  assert.deepEqual([...new Set(accepted)], EQUAL_ALL_THE_SAME);
});

test("Other notations of the same value are right", () => {
  const same: readonly (readonly [gold: string, text: string])[] = [
    ["\\frac{1}{2}", "0.5"],
    ["5\\sqrt{2}", "\\boxed{\\sqrt{50}}"],
    ["\\frac{\\sqrt3}{3}", "The answer is $\\frac{1}{\\sqrt{3}}$."],
    [
      "\\frac{-1+\\sqrt{17}}{2}, \\frac{-1-\\sqrt{17}}{2}",
      "$\\boxed{\\frac{-1-\\sqrt{17}}{2}}$ and $\\boxed{\\frac{\\sqrt{17}-1}{2}}$",
    ],
    ["(x+1)^2", "$x^2+2x+1$"],
    ["\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\boxed{\\begin{bmatrix} 1 \\\\ 2 \\end{bmatrix}}"],
    ["10\\%", "\\boxed{10}"],
    ["10\\%", "\\boxed{0.1}"],
    ["72", "\\boxed{72^\\circ}"],
    ["11\\frac{1}{2}", "\\boxed{11.5}"],
    ["1{,}000{,}000", "\\boxed{1,000,000}"],
    ["y = 2x+3", "\\boxed{2x - y + 3 = 0}"],
    ["\\text{east}", "\\boxed{\\text{East}}"],
    ["82", "<think>\\boxed{5}</think> **Answer:** 082"],
    ["[-1,6]", "\\boxed{-1 \\le x \\le 6}"],
    ["\\frac{1}{12}", "\\boxed{0.0833333333333}"],
  ];
  for (const [answer, text] of same) {
    assert.equal(gradeMaths({ question: "", answer }, text).outcome, "right", `${answer} ~ ${text}`);
  }
});

test("A text that states nothing is ungradable, and so is one that never ends its reasoning", () => {
  const texts = ["", "I cannot solve this.", "<think>It is \\boxed{5}", "Let me think about it again"];
  for (const text of texts) {
    assert.equal(gradeMaths({ question: "", answer: "5" }, text).outcome, "ungradable", text);
    assert.equal(gradeNumber({ question: "", answer: "5" }, text).outcome, "ungradable", text);
  }
  assert.equal(
    gradeNumber({ question: "", answer: "5" }, "\\boxed{\\text{five or so}}").outcome,
    "ungradable",
  );
});

test("A number is graded by its value, whatever stands around it", () => {
  const outcomeOf = (answer: string, text: string) =>
    gradeNumber({ question: "How many?", answer }, text).outcome;
  for (const text of ["#### 2,178", "The answer is **$2,178**.", "so they take 2178 dollars", "= 2178.00"]) {
    assert.equal(outcomeOf("2,178", text), "right", text);
  }
  for (const text of ["#### 2,187", "2178 + 1 = 2179", "The answer is 217.8", "The answer is -2178"]) {
    assert.equal(outcomeOf("2,178", text), "wrong", text);
  }
});

for (const set of DATA_SETS.filter(({ name }) => ["math500", "hmmt25", "aime25", "gsm8k"].includes(name))) {
  test(`Each right answer of the ${set.title} sample is right for its question, and wrong for the next one`, async () => {
    const { questions } = await loadSample(set, "canopy");
    for (const [index, { question, answer }] of questions.entries()) {
      const text = `Thus it is $\\boxed{${answer}}$.`;
      assert.equal(gradeMaths({ question, answer }, text).outcome, "right", answer);
      const next = questions[(index + 1) % questions.length]!;
      if (next.answer === answer) continue;
      assert.notEqual(gradeMaths(next, text).outcome, "right", `${answer} ~ ${next.answer}`);
    }
  });
}
