import type { ComparedAnswers } from "../../evaluation/paired_records.ts";
import type { PairedAnswers } from "../../statistics/paired_answers.ts";
import type { Interval } from "../../statistics/statistics.ts";
import { countText, ratioText, shareText } from "../report.ts";

/** 20 answers to as many questions → `20`; 200 to them → `200 (20 questions)`. */
export function answersText({ answers, questions }: PairedAnswers): string {
  const text = countText(answers);
  return answers === questions ? text : `${text} (${countText(questions)} questions)`;
}

/** `12.5 % – 30.0 %`. */
export function intervalText({ low, high }: Interval): string {
  return `${shareText(low)} – ${shareText(high)}`;
}

/** `0.912 – 1.034`. */
export function ratioIntervalText({ low, high }: Interval): string {
  return `${ratioText(low)} – ${ratioText(high)}`;
}

/** Heads of `comparedCells`. */
export const COMPARED_HEADS = ["difference", "95 %", "gained", "lost", "p", "bootstrap 95 %", "p"];

/** What two ways over the same answers differ by. */
export function comparedCells(one: ComparedAnswers): string[] {
  return [
    shareText(one.difference),
    intervalText(one.interval),
    countText(one.gained),
    countText(one.lost),
    one.p.toFixed(3),
    intervalText(one.bootstrap.interval),
    one.bootstrap.p.toFixed(3),
  ];
}

/** How two ways are compared. */
export const PAIRED_NOTES = [
  "bootstrap: the paired bootstrap (2,000 draws of questions, each with the answers of both): percentile interval, and twice the share of draws on the other side of no difference",
];

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
