import { DurationHistogram } from "../statistics/histogram.ts";
import { meanOf } from "../statistics/statistics.ts";
import type { EvalRecord } from "./eval_record.ts";

/** Times of what a client reads; in ms, NaN where nothing tells them. */
export interface ReadingFigures {
  /** Between two pieces of text, over all pieces of all answers. */
  readonly itlMs: {
    readonly mean: number;
    readonly p50: number;
    readonly p90: number;
    readonly p99: number;
    readonly max: number;
  };
  /** Mean over answers of the time for a token after the first text. */
  readonly tpotMs: number;
}

/** How fast the text of these answers came. */
export function readingFigures(records: readonly EvalRecord[]): ReadingFigures {
  const gaps = new DurationHistogram();
  for (const { gaps: own } of records) if (own !== undefined) gaps.addKept(own);
  return {
    itlMs: {
      mean: gaps.mean,
      p50: gaps.quantile(0.5),
      p90: gaps.quantile(0.9),
      p99: gaps.quantile(0.99),
      max: gaps.max,
    },
    tpotMs: meanOf(records.flatMap((record) => tpotMs(record) ?? [])),
  };
}

/** Time for a token after the first text, in ms; undefined where the text came at once. */
export function tpotMs({ ttftMs, latencyMs, answerTokens = 0, gaps }: EvalRecord): number | undefined {
  return gaps === undefined || ttftMs === null || answerTokens < 2
    ? undefined
    : (latencyMs - ttftMs) / (answerTokens - 1);
}
