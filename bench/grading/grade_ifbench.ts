import type { EvalQuestion } from "../datasets/data_set.ts";
import type { AnswerGrade } from "./answer_grade.ts";
import {
  type Constraint,
  type ConstraintVerdict,
  looseVariants,
  looseVerdict,
  strictVerdict,
} from "./ifbench/constraint_verdict.ts";
import { answerPart } from "./stated_phrases.ts";

/**
 * Grades a text by the constraints of an IFBench question: right where one variant of the text meets each of them
 * (loose, as the paper reports). With a constraint that cannot be checked it is ungradable.
 */
export function gradeIfbench({ extra }: Pick<EvalQuestion, "extra">, text: string): AnswerGrade {
  const part = answerPart(text);
  // Blank lines between reasoning and answer are no part of either.
  const answer = part === text ? text : (part ?? "").trim();
  const constraints = constraintsOf(extra ?? {});
  const variants = looseVariants(answer);
  const strict = constraints.map((one) => strictVerdict(one, answer));
  const loose = constraints.map((one) => looseVerdict(one, variants));
  const unchecked = loose.flatMap((verdict, index) =>
    typeof verdict === "string" ? [`${constraints[index]!.name}: ${verdict}`] : []
  );
  return {
    outcome: unchecked.length > 0 ? "ungradable" : loose.every((one) => one === true) ? "right" : "wrong",
    unchecked: unchecked[0],
    parts: { strict: strict.map(partOf), loose: loose.map(partOf) },
  };
}

function partOf(verdict: ConstraintVerdict): boolean | null {
  return typeof verdict === "string" ? null : verdict;
}

/** Constraints as the data set's reader has put them down. */
function constraintsOf(extra: Readonly<Record<string, unknown>>): Constraint[] {
  const { instructions, arguments: given } = extra;
  if (!Array.isArray(instructions) || !Array.isArray(given)) return [];
  return instructions.map((name, index) => ({ name: String(name), given: given[index] ?? {} }));
}
