import { type PairedAnswers, pairedAnswers } from "../statistics/paired_answers.ts";
import {
  bootstrapDifference,
  type PairedBootstrap,
  type QuestionSums,
} from "../statistics/paired_bootstrap.ts";
import { sumOf } from "../statistics/statistics.ts";
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

/** Two ways over the same answers, with the paired bootstrap of the difference. */
export interface ComparedAnswers extends PairedAnswers {
  readonly bootstrap: PairedBootstrap;
}

/** The first ones' right answers beside the second ones', question by question. */
export function compareRight(pairs: readonly RecordPair[]): ComparedAnswers {
  const questions = Map.groupBy(pairs, ([{ question }]) => question);
  const compared = pairedAnswers(
    [...questions.values()].map((answers) => answers.map(([one, other]) => [isRight(one), isRight(other)])),
  );
  const hits = pairSums(pairs, (record) => isRight(record) ? 1 : 0);
  return { ...compared, bootstrap: bootstrapDifference(hits, pairs.length) };
}

/** Sums of a figure over the answers to each question, of the first and of the second ones. */
export function pairSums(
  pairs: readonly RecordPair[],
  figure: (record: EvalRecord) => number,
): QuestionSums[] {
  return [...Map.groupBy(pairs, ([{ question }]) => question).values()].map((own) => [
    sumOf(own.map(([one]) => figure(one))),
    sumOf(own.map(([, other]) => figure(other))),
  ]);
}

/** True for an answer that its grader has found right. */
export function isRight({ outcome }: EvalRecord): boolean {
  return outcome === "right";
}
