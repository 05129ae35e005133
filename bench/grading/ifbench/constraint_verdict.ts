import { verdictForAllWords } from "./english/known_words.ts";
import { sentencesOf } from "./english/sentences.ts";
import { Arguments, NotCheckable } from "./constraints/checker.ts";
import { CHECKERS, REFUSED } from "./constraints.ts";
import { strip } from "./python/python_text.ts";

/** One constraint of a question, with its arguments. */
export interface Constraint {
  readonly name: string;
  readonly given: Readonly<Record<string, unknown>>;
}

/** Whether a text meets a constraint; text where that cannot be said: the reason. */
export type ConstraintVerdict = boolean | string;

const UNKNOWN_ENDS =
  "where its sentences end depends on words that only NLTK's table knows, which is not part of Canopy";

/** Checks a text as it is. */
export function strictVerdict(constraint: Constraint, text: string): ConstraintVerdict {
  return looseVerdict(constraint, [text]);
}

/** Checks variants of a text, of which one must meet the constraint. */
export function looseVerdict({ name, given }: Constraint, variants: readonly string[]): ConstraintVerdict {
  const check = CHECKERS[name];
  if (check === undefined) return REFUSED[name] ?? `Canopy knows no constraint ${name}`;
  const values = new Arguments(given);
  let unknown = false;
  try {
    for (const text of variants) {
      // A text of blanks meets nothing.
      const verdict = strip(text) !== "" &&
        verdictForAllWords((known) => check(text, values, (part) => sentencesOf(part, known)));
      if (verdict === true) return true;
      unknown ||= verdict === undefined;
    }
  } catch (error) {
    if (error instanceof NotCheckable) return error.message;
    throw error;
  }
  return unknown ? UNKNOWN_ENDS : false;
}

/** What IFBench's loose check tries: the text, without its first line, its last line, both, and each without asterisks. */
export function looseVariants(text: string): string[] {
  const lines = text.split("\n");
  const cut = [lines.slice(1), lines.slice(0, -1), lines.slice(1, -1)].map((left) => strip(left.join("\n")));
  return [...new Set([text, ...cut].flatMap((one) => [one, one.replaceAll("*", "")]))];
}
