import { bootstrapRatio, type PairedBootstrap } from "../statistics/paired_bootstrap.ts";
import { sumOf } from "../statistics/statistics.ts";
import type { EvalRecord } from "./eval_record.ts";
import {
  type ComparedAnswers,
  compareRight,
  isRight,
  pairRecords,
  pairSums,
  type RecordPair,
} from "./paired_records.ts";

/** The answers of a mode on a set in two evaluations, question by question: the second evaluation beside the first. */
export interface RecordComparison extends ComparedAnswers {
  readonly set: string;
  /** Of the first and of the second evaluation. */
  readonly modes: readonly [string, string];
  /** Answers of the first and of the second evaluation, also those that have none beside them or could not be checked. */
  readonly given: readonly [number, number];
  readonly accuracies: readonly [number, number];
  /** The second one's sum by the first one's, over the same answers. */
  readonly latencyRatio: number;
  readonly latencyBootstrap: PairedBootstrap;
  readonly tokensRatio: number;
}

/** Compares two evaluations: each set, each mode of the first with the one that `modes` names for it, over what both have. */
export function compareRecords(
  [first, second]: readonly [readonly EvalRecord[], readonly EvalRecord[]],
  modes: readonly (readonly [string, string])[],
): RecordComparison[] {
  const sets = [...new Set([...first, ...second].map(({ set }) => set))];
  return sets.flatMap((set) =>
    modes.flatMap((pair): RecordComparison[] => {
      const of = (records: readonly EvalRecord[], mode: string) =>
        records.filter((record) => record.set === set && record.mode === mode && record.warmUp !== true);
      const [ones, others] = [of(first, pair[0]), of(second, pair[1])];
      if (ones.length + others.length === 0) return [];
      const both = pairRecords(ones.filter(isChecked), others.filter(isChecked));
      return [{ set, modes: pair, given: [ones.length, others.length], ...compared(both) }];
    })
  );
}

function isChecked({ unchecked }: EvalRecord): boolean {
  return (unchecked ?? null) === null;
}

function compared(both: readonly RecordPair[]): Omit<RecordComparison, "set" | "modes" | "given"> {
  const share = (records: readonly EvalRecord[]) => records.filter(isRight).length / records.length;
  const ratio = (figure: (record: EvalRecord) => number) =>
    sumOf(both.map(([, other]) => figure(other))) / sumOf(both.map(([one]) => figure(one)));
  return {
    ...compareRight(both.map(([one, other]) => [other, one])),
    accuracies: [share(both.map(([one]) => one)), share(both.map(([, other]) => other))],
    latencyRatio: ratio(({ latencyMs }) => latencyMs),
    latencyBootstrap: bootstrapRatio(
      pairSums(both, ({ latencyMs }) => latencyMs).map(([one, other]) => [other, one]),
    ),
    tokensRatio: ratio(({ completionTokens }) => completionTokens),
  };
}
