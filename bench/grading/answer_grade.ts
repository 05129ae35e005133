/** Result of grading one text: what states no answer that can be read is `ungradable`, and never right. */
export interface AnswerGrade {
  readonly outcome: "right" | "wrong" | "ungradable";
  /** The answer as the text states it. */
  readonly stated?: string | undefined;
}

/** The verdict on a text that states nothing. */
export const NOTHING_STATED: AnswerGrade = { outcome: "ungradable" };

/** `right` or `wrong`. */
export function gradedAs(right: boolean, stated: string): AnswerGrade {
  return { outcome: right ? "right" : "wrong", stated };
}
