import { meanOf } from "../statistics/statistics.ts";
import { type PairedAnswers, pairedAnswers } from "../statistics/paired_answers.ts";
import type { LaboratoryRow } from "./ask.ts";
import { OVERLAPPED } from "./conditions.ts";
import { exitRateOf, type LaboratoryResult } from "./experiment.ts";

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

/** One way to answer here and on another engine, over the same questions. */
export interface EngineComparison extends PairedAnswers {
  readonly name: string;
  /** Shares of right answers, and of questions with the same final answer on both. */
  readonly right: number;
  readonly rightElsewhere: number;
  readonly sameFinal: number;
  /** Share of the decisions that ended in an exit. */
  readonly exitRate: number;
  readonly exitRateElsewhere: number;
  /** Mean of written tokens, and of the time, as shares of mode #3's on the same engine; NaN without it. */
  readonly tokensRatio: number;
  readonly tokensRatioElsewhere: number;
  readonly latencyRatio: number;
  readonly latencyRatioElsewhere: number;
}

/** Compares every way with rows of the same questions from elsewhere; ways without such rows are left out. */
export function enginesCompared(
  { conditions }: LaboratoryResult,
  elsewhere: readonly LaboratoryRow[],
): EngineComparison[] {
  const others = new Map(elsewhere.map((row) => [`${row.condition}\0${row.question}`, row]));
  const pairsOf = (rows: readonly LaboratoryRow[]) =>
    rows.flatMap((here): (readonly [LaboratoryRow, LaboratoryRow])[] => {
      const there = others.get(`${here.condition}\0${here.question}`);
      return there === undefined ? [] : [[here, there]];
    });
  const yardstick = pairsOf(conditions.find(({ condition: { name } }) => name === OVERLAPPED)?.rows ?? []);
  return conditions.flatMap(({ condition: { name }, rows }) => {
    const pairs = pairsOf(rows);
    if (pairs.length === 0) return [];
    const share = (of: (pair: readonly [LaboratoryRow, LaboratoryRow]) => boolean) =>
      meanOf(pairs.map((pair) => of(pair) ? 1 : 0));
    const ratio = (side: 0 | 1, part: (row: LaboratoryRow) => number) =>
      meanOf(pairs.map((pair) => part(pair[side]))) / meanOf(yardstick.map((pair) => part(pair[side])));
    return [{
      name,
      ...pairedAnswers(pairs.map(([here, there]) => [[here.right, there.right]])),
      right: share(([here]) => here.right),
      rightElsewhere: share(([, there]) => there.right),
      sameFinal: share(([here, there]) => here.stated === there.stated),
      exitRate: exitRateOf(pairs.map(([here]) => here)),
      exitRateElsewhere: exitRateOf(pairs.map(([, there]) => there)),
      tokensRatio: ratio(0, ({ completionTokens }) => completionTokens),
      tokensRatioElsewhere: ratio(1, ({ completionTokens }) => completionTokens),
      latencyRatio: ratio(0, ({ latencyMs }) => latencyMs),
      latencyRatioElsewhere: ratio(1, ({ latencyMs }) => latencyMs),
    }];
  });
}
