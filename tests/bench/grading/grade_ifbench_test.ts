import assert from "node:assert/strict";
import { test } from "node:test";
import { IFBENCH } from "../../../bench/datasets/published/programs.ts";
import { loadSample } from "../../../bench/datasets/load_questions.ts";
import { gradeIfbench } from "../../../bench/grading/grade_ifbench.ts";

const question = (...constraints: readonly (readonly [string, Readonly<Record<string, unknown>>])[]) => ({
  extra: {
    instructions: constraints.map(([name]) => name),
    arguments: constraints.map(([, given]) => given),
  },
});

test("An answer is right where each constraint is met by the text, or by the text without its first or last line", () => {
  const asked = question(["format:options", { options: "yes/no/maybe" }], ["format:no_whitespace", {}]);
  assert.deepEqual(gradeIfbench(asked, "Yes."), {
    outcome: "right",
    unchecked: undefined,
    parts: { strict: [true, true], loose: [true, true] },
  });
  const loose = gradeIfbench(asked, "Here is my answer:\n**no**");
  assert.equal(loose.outcome, "right");
  assert.deepEqual(loose.parts, { strict: [false, false], loose: [true, true] });
  const half = gradeIfbench(asked, "perhaps");
  assert.deepEqual([half.outcome, half.parts?.["loose"]], ["wrong", [false, true]]);
});

test("Reasoning is no part of an answer, and an answer that never comes meets nothing", () => {
  const asked = question(["format:no_whitespace", {}]);
  assert.equal(gradeIfbench(asked, "<think>What now?</think>\n\nnothing").outcome, "right");
  assert.equal(gradeIfbench(asked, "<think>nothing").outcome, "wrong");
  assert.equal(gradeIfbench(asked, " \n").outcome, "wrong");
});

test("An answer with a constraint that cannot be checked is neither right nor wrong, and the reason is named", () => {
  const asked = question(["words:start_verb", {}], ["format:no_whitespace", {}]);
  const grade = gradeIfbench(asked, "Run!");
  assert.equal(grade.outcome, "ungradable");
  assert.match(grade.unchecked ?? "", /^words:start_verb: whether a word is a verb/);
  assert.deepEqual(grade.parts, { strict: [null, true], loose: [null, true] });
});

test("Each constraint of the sample has a checker, and the arguments that it needs", async () => {
  const { questions } = await loadSample(IFBENCH, "canopy");
  for (const one of questions) {
    const { outcome, unchecked } = gradeIfbench(one, "One, two.");
    assert.equal(unchecked, undefined, one.id);
    assert.notEqual(outcome, "ungradable");
  }
});
