import type { AnswerKind, AnswerRules } from "../../cfgs/schema/early_exit.ts";
import { compileSafePattern } from "../../cfgs/schema/safe_pattern.ts";
import { findBoxed } from "./boxed.ts";
import { findChoice } from "./choice.ts";
import { findCodeResult } from "./code_result.ts";
import { type FinalAnswer, finalPart, type FoundAnswer, MAX_ANSWER_LENGTH } from "./final_answer.ts";
import { findField } from "./json_field.ts";
import { findMath } from "./math.ts";
import { findNumber } from "./number.ts";
import { findPattern } from "./pattern.ts";
import { numberAnswer } from "./read_answer.ts";

/** Finds the final answer of a text; undefined when it has none that can be told for sure. */
export type AnswerExtractor = (text: string, question: string) => FinalAnswer | undefined;

type Finder = (
  text: string,
  question: string,
) => FoundAnswer | undefined;

/** The extractor of the settings: the first kind that finds something decides. Throws for a pattern that cannot be used. */
export function answerExtractor(
  { extract, pattern, field }: Pick<AnswerRules, "extract" | "pattern" | "field">,
): AnswerExtractor {
  const compiled = pattern === undefined ? undefined : compileSafePattern(pattern);
  const finders: Readonly<Record<AnswerKind, Finder>> = {
    pattern: (text, question) => compiled === undefined ? undefined : findPattern(text, question, compiled),
    field: (text, question) => findField(text, question, field),
    boxed: findBoxed,
    code: findCodeResult,
    choice: findChoice,
    number: (text, question) => {
      const found = findNumber(text, question);
      return found === undefined ? undefined : numberAnswer(found.text, found.number);
    },
    math: findMath,
  };
  return (text, question) => {
    const searched = finalPart(text);
    for (const kind of extract) {
      const found = finders[kind](searched, question);
      if (found !== undefined) {
        return { ...found, kind, text: found.text.slice(0, MAX_ANSWER_LENGTH) };
      }
    }
    return undefined;
  };
}
