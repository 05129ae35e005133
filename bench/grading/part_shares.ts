import type { GradedParts } from "./answer_grade.ts";

/** Shares of answers that are checked part by part, such as IFBench's constraints, in one way of checking. */
export interface PartShares {
  /** Way of checking, such as `strict`. */
  readonly way: string;
  /** Answers of which all parts could be checked, and the share of those with all parts met; NaN without any. */
  readonly answers: number;
  readonly allMet: number;
  /** Parts that could be checked, the share that was met, and parts that could not be checked. */
  readonly parts: number;
  readonly met: number;
  readonly unchecked: number;
}

/** Shares by way of checking; none where no answer has parts. */
export function partShares(
  grades: readonly { readonly parts?: GradedParts | null | undefined }[],
): PartShares[] {
  const ways = new Set(grades.flatMap(({ parts }) => Object.keys(parts ?? {})));
  return [...ways].map((way): PartShares => {
    const answers = grades.map(({ parts }) => parts?.[way] ?? []).filter(({ length }) => length > 0);
    const whole = answers.filter((parts) => !parts.includes(null));
    const all = answers.flat();
    const checked = all.filter((part) => part !== null);
    return {
      way,
      answers: whole.length,
      allMet: whole.filter((parts) => !parts.includes(false)).length / whole.length,
      parts: checked.length,
      met: checked.filter((part) => part).length / checked.length,
      unchecked: all.length - checked.length,
    };
  });
}

/** Reasons why answers could not be checked, with their number, the most frequent first. */
export function uncheckedReasons(
  grades: readonly { readonly unchecked?: string | null | undefined }[],
): (readonly [string, number])[] {
  const reasons = grades.flatMap(({ unchecked }) =>
    unchecked === undefined || unchecked === null ? [] : [unchecked]
  );
  return [...Map.groupBy(reasons, (reason) => reason)].map(([reason, list]) => [reason, list.length] as const)
    .sort(([, a], [, b]) => b - a);
}
