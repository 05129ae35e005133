import { bootstrapRatio, type PairedBootstrap } from "../statistics/paired_bootstrap.ts";
import { meanOf } from "../statistics/statistics.ts";
import type { EvalRecord } from "./eval_record.ts";
import { isRight, pairRecords, pairSums, type RecordPair } from "./paired_records.ts";
import { tpotMs } from "./reading_figures.ts";
import { type SpendingBasis, spendingOf } from "./spending.ts";

/** Figures of a mode divided by those of another one, over the answers of both; NaN where one of them has none. */
export interface NormalisedFigures {
  readonly set: string;
  readonly mode: string;
  /** That all are divided by. */
  readonly by: string;
  readonly answers: number;
  readonly accuracy: number;
  readonly latency: number;
  /** Over questions. */
  readonly latencyBootstrap: PairedBootstrap;
  readonly ttft: number;
  readonly tpot: number;
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly wastedTokens: number;
  readonly gpuSeconds: number;
  readonly tokenCost: number;
}

/** Each mode's means divided by those of the mode `by` over the same answers, as in the paper; itself is left out. */
export function normalisedFigures(
  records: readonly EvalRecord[],
  { modes, by, basis }: {
    readonly modes: readonly string[];
    readonly by: string;
    readonly basis: SpendingBasis;
  },
): NormalisedFigures[] {
  return [...Map.groupBy(records, ({ set }) => set)].flatMap(([set, group]) =>
    modes.filter((mode) => mode !== by).flatMap((mode): NormalisedFigures[] => {
      const of = (name: string) => group.filter((record) => record.mode === name);
      const pairs = pairRecords(of(mode), of(by));
      return pairs.length === 0 ? [] : [{ set, mode, by, answers: pairs.length, ...ratios(pairs, basis) }];
    })
  );
}

function ratios(pairs: readonly RecordPair[], basis: SpendingBasis) {
  /** Over the pairs of which both are known. */
  const ratio = (figure: (record: EvalRecord) => number | null | undefined) => {
    const known = pairs.flatMap(([one, other]) => {
      const figures = [figure(one) ?? undefined, figure(other) ?? undefined] as const;
      return figures[0] === undefined || figures[1] === undefined ? [] : [[figures[0], figures[1]] as const];
    });
    return quotient(meanOf(known.map(([one]) => one)), meanOf(known.map(([, other]) => other)));
  };
  const checked = pairs.filter((pair) => pair.every(({ unchecked }) => (unchecked ?? null) === null));
  const share = (at: 0 | 1) => meanOf(checked.map((pair) => isRight(pair[at]) ? 1 : 0));
  return {
    accuracy: quotient(share(0), share(1)),
    latency: ratio(({ latencyMs }) => latencyMs),
    latencyBootstrap: bootstrapRatio(pairSums(pairs, ({ latencyMs }) => latencyMs)),
    ttft: ratio(({ ttftMs }) => ttftMs),
    tpot: ratio(tpotMs),
    calls: ratio(({ work }) => work?.calls),
    promptTokens: ratio(({ promptTokens }) => promptTokens),
    completionTokens: ratio(({ completionTokens }) => completionTokens),
    wastedTokens: ratio(({ work }) => work?.wastedTokens),
    gpuSeconds: ratio((record) => spendingOf(record, basis).gpuSeconds),
    tokenCost: ratio((record) => spendingOf(record, basis).tokenCost),
  };
}

function quotient(one: number, other: number): number {
  return other === 0 ? NaN : one / other;
}
