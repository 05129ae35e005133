import { CanopyError } from "../../base/errors.ts";
import type { EvalQuestion, GraderName } from "../datasets/data_set.ts";
import { gradeChoice } from "./grade_choice.ts";
import { gradeExact } from "./grade_exact.ts";
import { gradeIfbench } from "./grade_ifbench.ts";
import { gradeMaths, gradeNumber } from "./maths/grade_maths.ts";
import type { AnswerGrade } from "./answer_grade.ts";

type Grader = (question: EvalQuestion, text: string) => AnswerGrade | Promise<AnswerGrade>;

const GRADERS: Readonly<Partial<Record<GraderName, Grader>>> = {
  number: gradeNumber,
  maths: gradeMaths,
  choice: gradeChoice,
  exact: gradeExact,
  ifbench: gradeIfbench,
};

/** Reasons why answers cannot be graded here. */
const MISSING: Readonly<Partial<Record<GraderName, string>>> = {
  code: "answers are programs, which must run in a sandbox, and Canopy has none yet",
};

/** Why a grader is not there; undefined where it is. */
export function missingGrader(name: GraderName): string | undefined {
  return GRADERS[name] === undefined ? MISSING[name] ?? "it is unknown" : undefined;
}

/** Grades a model's answer to a question. Rejects with 400 `grader_missing`. */
export async function gradeAnswer(question: EvalQuestion, text: string): Promise<AnswerGrade> {
  const grader = GRADERS[question.grader];
  if (grader !== undefined) return await grader(question, text);
  throw new CanopyError(`Cannot grade question ${question.id}: ${missingGrader(question.grader)}`, {
    code: "grader_missing",
    status: 400,
  });
}
