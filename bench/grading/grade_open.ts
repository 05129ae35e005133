import type { AnswerGrade } from "./answer_grade.ts";

/** The verdict on every answer to an open-ended prompt: nothing is right or wrong. */
export function gradeOpen(): AnswerGrade {
  return { outcome: "ungradable", unchecked: "an open-ended prompt has no right answer" };
}
