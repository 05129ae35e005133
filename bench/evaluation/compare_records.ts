import { type Interval, mcnemarProbability, sumOf } from "../statistics/statistics.ts";
import type { EvalRecord } from "./eval_record.ts";

/** The answers of a mode on a set in two evaluations, question by question. */
export interface RecordComparison {
  readonly set: string;
  /** Of the first and of the second evaluation. */
  readonly modes: readonly [string, string];
  /** Questions and repeats that both have answered and that could be checked. */
  readonly answers: number;
  readonly accuracies: readonly [number, number];
  /** Of the second one's share of right answers from the first one's. */
  readonly difference: number;
  /** 95 % interval of the difference, for pairs (Agresti & Min 2005: half an answer added to each cell). */
  readonly interval: Interval;
  /** Answers that only the second one, only the first one got right. */
  readonly gained: number;
  readonly lost: number;
  /** McNemar's exact test. */
  readonly p: number;
  /** The second one's sum by the first one's, over the same answers. */
  readonly latencyRatio: number;
  readonly tokensRatio: number;
}

const Z = 1.959964;

/** Compares two evaluations: sets that both have, each mode of the first with the one that `modes` names for it. */
export function compareRecords(
  [first, second]: readonly [readonly EvalRecord[], readonly EvalRecord[]],
  modes: readonly (readonly [string, string])[],
): RecordComparison[] {
  const sets = [...new Set(first.map(({ set }) => set))];
  return sets.flatMap((set) =>
    modes.flatMap((pair): RecordComparison[] => {
      const of = (records: readonly EvalRecord[], mode: string) =>
        records.filter((record) =>
          record.set === set && record.mode === mode && (record.unchecked ?? null) === null
        );
      const others = new Map(of(second, pair[1]).map((record) => [keyOf(record), record]));
      const both = of(first, pair[0]).flatMap((one) => {
        const other = others.get(keyOf(one));
        return other === undefined ? [] : [[one, other] as const];
      });
      return both.length === 0 ? [] : [{ set, modes: pair, ...compared(both) }];
    })
  );
}

function keyOf({ question, repeat }: EvalRecord): string {
  return `${question}\0${repeat}`;
}

function compared(
  both: readonly (readonly [EvalRecord, EvalRecord])[],
): Omit<RecordComparison, "set" | "modes"> {
  const isRight = ({ outcome }: EvalRecord) => outcome === "right";
  const count = (holds: (one: EvalRecord, other: EvalRecord) => boolean) =>
    both.filter(([one, other]) => holds(one, other)).length;
  const gained = count((one, other) => !isRight(one) && isRight(other));
  const lost = count((one, other) => isRight(one) && !isRight(other));
  const answers = both.length;
  const ratio = (figure: (record: EvalRecord) => number) =>
    sumOf(both.map(([, other]) => figure(other))) / sumOf(both.map(([one]) => figure(one)));
  return {
    answers,
    accuracies: [count(isRight) / answers, count((_, other) => isRight(other)) / answers],
    difference: (gained - lost) / answers,
    interval: pairedInterval(gained, lost, answers),
    gained,
    lost,
    p: mcnemarProbability(gained, lost),
    latencyRatio: ratio(({ latencyMs }) => latencyMs),
    tokensRatio: ratio(({ completionTokens }) => completionTokens),
  };
}

function pairedInterval(gained: number, lost: number, answers: number): Interval {
  const [more, less, all] = [gained + 0.5, lost + 0.5, answers + 2];
  const middle = (more - less) / all;
  const half = Z * Math.sqrt(more + less - (more - less) ** 2 / all) / all;
  return { low: Math.max(-1, middle - half), high: Math.min(1, middle + half) };
}
