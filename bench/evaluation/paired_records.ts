import { type PairedAnswers, pairedAnswers } from "../statistics/paired_answers.ts";
import type { EvalRecord } from "./eval_record.ts";

/** Answers of two ways to the same question in the same repeat. */
export type RecordPair = readonly [first: EvalRecord, second: EvalRecord];

/** The answers that have a counterpart, each with it, in the order of the first ones. */
export function pairRecords(first: readonly EvalRecord[], second: readonly EvalRecord[]): RecordPair[] {
  const others = new Map(second.map((record) => [keyOf(record), record]));
  return first.flatMap((one) => {
    const other = others.get(keyOf(one));
    return other === undefined ? [] : [[one, other]];
  });
}

function keyOf({ question, repeat }: EvalRecord): string {
  return `${question}\0${repeat}`;
}

/** The first ones' right answers beside the second ones', question by question. */
export function compareRight(pairs: readonly RecordPair[]): PairedAnswers {
  const questions = Map.groupBy(pairs, ([{ question }]) => question);
  return pairedAnswers(
    [...questions.values()].map((answers) => answers.map(([one, other]) => [isRight(one), isRight(other)])),
  );
}

/** True for an answer that its grader has found right. */
export function isRight({ outcome }: EvalRecord): boolean {
  return outcome === "right";
}
