import type { LaboratoryQuestion } from "../datasets/laboratory/question.ts";
import { answerRulesSchema } from "../../cfgs/schema/early_exit.ts";
import { equalAnswers } from "../../scorer/answers/equal_answers.ts";
import { answerExtractor } from "../../scorer/answers/extract.ts";
import type { FinalAnswer } from "../../scorer/answers/final_answer.ts";

/** A text's final answer, and whether it is the right one. */
export interface Grade {
  /** Undefined where the text states none. */
  readonly stated: FinalAnswer | undefined;
  readonly right: boolean;
}

const extract = answerExtractor(answerRulesSchema.parse({}));

/** Grades an answer to a question of the laboratory as early exit reads answers. */
export function gradeOf(
  { question, answer }: Pick<LaboratoryQuestion, "question" | "answer">,
  text: string,
): Grade {
  const stated = extract(text, question);
  const gold = extract(`The answer is ${answer}.`, question);
  return {
    stated,
    right: stated !== undefined && gold !== undefined && equalAnswers(stated, gold),
  };
}
