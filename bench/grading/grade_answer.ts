import type { EvalQuestion, GraderName } from "../datasets/data_set.ts";
import type { AnswerGrade } from "./answer_grade.ts";
import { gradeChoice } from "./grade_choice.ts";
import { gradeExact } from "./grade_exact.ts";
import { gradeIfbench } from "./grade_ifbench.ts";
import { gradeOpen } from "./grade_open.ts";
import { gradeProgram, type SandboxSource } from "./grade_program.ts";
import { gradeMaths, gradeNumber } from "./maths/grade_maths.ts";

type Grader = (
  question: EvalQuestion,
  text: string,
  openSandbox: SandboxSource,
) => AnswerGrade | Promise<AnswerGrade>;

const GRADERS: Readonly<Record<GraderName, Grader>> = {
  number: gradeNumber,
  maths: gradeMaths,
  choice: gradeChoice,
  exact: gradeExact,
  ifbench: gradeIfbench,
  code: gradeProgram,
  open: gradeOpen,
};

const NO_SANDBOX: SandboxSource = () =>
  Promise.resolve("programs run only in a sandbox, and none was opened");

/** Grades a model's answer to a question; a program only in the sandbox that `openSandbox` gives. */
export async function gradeAnswer(
  question: EvalQuestion,
  text: string,
  openSandbox: SandboxSource = NO_SANDBOX,
): Promise<AnswerGrade> {
  return await GRADERS[question.grader](question, text, openSandbox);
}
