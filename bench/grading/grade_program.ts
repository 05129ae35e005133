import { messageOf } from "../../base/errors.ts";
import type { EvalQuestion } from "../datasets/data_set.ts";
import { type AnswerGrade, NOTHING_STATED } from "./answer_grade.ts";
import { checkProgram, type RightValues, rightValues } from "./programs/check_program.ts";
import { programIn } from "./programs/program_in.ts";
import { programTask } from "./programs/program_task.ts";
import type { Sandbox } from "./programs/sandbox.ts";

/** Way to a sandbox, or the reason why there is none. */
export type SandboxSource = () => Promise<Sandbox | string>;

/** Right values by question: they are computed once. */
const RIGHT_VALUES = new WeakMap<object, Promise<RightValues>>();

/**
 * Grades a program by EvalPlus's tests, in a sandbox only: right where it passes all of them; without a sandbox it is
 * ungradable.
 */
export async function gradeProgram(
  question: EvalQuestion,
  text: string,
  openSandbox: SandboxSource,
): Promise<AnswerGrade> {
  const task = programTask(question);
  const code = programIn(text, task);
  if (code === undefined) return NOTHING_STATED;
  const sandbox = await openSandbox();
  if (typeof sandbox === "string") return { outcome: "ungradable", unchecked: sandbox };
  try {
    const key = question.extra ?? question;
    const known = RIGHT_VALUES.get(key) ?? rightValues(task, sandbox);
    RIGHT_VALUES.set(key, known);
    const right = await known;
    const { base, plus } = await checkProgram(code, { task, right, sandbox });
    const parts = base === null ? { plus: [plus] } : { base: [base], plus: [plus] };
    return { outcome: plus ? "right" : "wrong", parts };
  } catch (cause) {
    return { outcome: "ungradable", unchecked: messageOf(cause) };
  }
}
