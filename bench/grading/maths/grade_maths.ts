import { type AnswerGrade, gradedAs, NOTHING_STATED } from "../answer_grade.ts";
import { equalMaths, readMaths } from "./equal_maths.ts";
import { statedMaths } from "./stated_maths.ts";

/** Question and right answer. */
interface AskedMaths {
  readonly question: string;
  /** In LaTeX or plain notation. */
  readonly answer: string;
}

/** Grades an answer in mathematical notation: any form with the same value, or the same set of values, is right. */
export function gradeMaths({ question, answer }: AskedMaths, text: string): AnswerGrade {
  const stated = statedMaths(text);
  if (readMaths(stated, question) === undefined) return NOTHING_STATED;
  return gradedAs(equalMaths(answer, stated, question), stated.join(", ").replace(/[.,;]$/u, ""));
}

/** Grades an answer that is one number; a text that ends in no number is ungradable. */
export function gradeNumber({ question, answer }: AskedMaths, text: string): AnswerGrade {
  const stated = statedMaths(text);
  const read = readMaths(stated, question)?.form;
  const form = read?.kind === "assigned" ? read.value : read;
  // A formula may have the right value: 3 \cdot 14.
  if (form === undefined || form.kind === "text" || form.kind === "list") return NOTHING_STATED;
  return gradedAs(equalMaths(answer, stated, question), stated.join(", ").replace(/[.,;]$/u, ""));
}
