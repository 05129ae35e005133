/** Result of grading one text: what states no answer that can be read is `ungradable`, and never right. */
export interface AnswerGrade {
  readonly outcome: "right" | "wrong" | "ungradable";
  /** The answer as the text states it. */
  readonly stated?: string | undefined;
  /** Why it could not be checked, which is not the text's fault: such an answer is in no share. */
  readonly unchecked?: string | undefined;
  /** What is checked one by one, by way of checking: IFBench's constraints, `strict` and `loose`; null: not checked. */
  readonly parts?: GradedParts | undefined;
}

/** Verdicts on the parts of an answer by way of checking, in the same order for all ways. */
export type GradedParts = Readonly<Record<string, readonly (boolean | null)[]>>;

/** The verdict on a text that states nothing. */
export const NOTHING_STATED: AnswerGrade = { outcome: "ungradable" };

/** `right` or `wrong`. */
export function gradedAs(right: boolean, stated: string): AnswerGrade {
  return { outcome: right ? "right" : "wrong", stated };
}
