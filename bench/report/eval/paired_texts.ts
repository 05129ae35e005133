import type { PairedAnswers } from "../../statistics/paired_answers.ts";
import { countText } from "../report.ts";

/** 20 answers to as many questions → `20`; 200 to them → `200 (20 questions)`. */
export function answersText({ answers, questions }: PairedAnswers): string {
  const text = countText(answers);
  return answers === questions ? text : `${text} (${countText(questions)} questions)`;
}

/** How repeats are compared, where there are any. */
export function repeatNotes(pairs: readonly PairedAnswers[]): string[] {
  return pairs.every(({ answers, questions }) => answers === questions) ? [] : [
    "answers to one question are not independent: where questions were asked several times, the interval of a difference is over questions, and p is that of the exact sign-flip test over questions, not McNemar's",
  ];
}

/** A row of a plot for each set, in their order, its name above it: names are long. */
export function setRows(sets: readonly string[]) {
  return {
    field: "set",
    type: "nominal" as const,
    sort: [...new Set(sets)],
    header: { title: null, labelOrient: "top" as const, labelAngle: 0, labelAnchor: "start" as const },
  };
}
