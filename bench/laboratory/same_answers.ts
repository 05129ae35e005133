import type { LaboratoryRow } from "./ask.ts";
import type { LaboratoryResult } from "./experiment.ts";

/** Likeliest answers of a model here and on another engine, to the same questions. */
export interface SameAnswers {
  readonly name: string;
  readonly questions: number;
  /** Of them those with the same text, to the last character. */
  readonly same: number;
  /** Ids of some of the others. */
  readonly different: readonly string[];
}

/** Compares the single models' answers, which draw nothing, with rows of the same questions from elsewhere. */
export function sameAnswers(
  { conditions }: LaboratoryResult,
  elsewhere: readonly LaboratoryRow[],
): SameAnswers[] {
  const texts = new Map(
    elsewhere.map(({ condition, question, text }) => [`${condition}\0${question}`, text]),
  );
  return conditions.filter(({ condition: { part } }) => part === "singles").map(
    ({ condition: { name }, rows }) => {
      const known = rows.filter(({ question }) => texts.get(`${name}\0${question}`) !== undefined);
      const other = known.filter(({ question, text }) => texts.get(`${name}\0${question}`) !== text);
      return {
        name,
        questions: known.length,
        same: known.length - other.length,
        different: other.slice(0, 10).map(({ question }) => question),
      };
    },
  );
}
