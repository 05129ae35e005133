import { meanOf } from "../statistics/statistics.ts";
import type { EvalRecord } from "./eval_record.ts";
import { gpuSeconds, type GpusOf } from "./gpu_time.ts";
import { type PriceTable, tokenCost } from "./price_table.ts";

/** What spending is counted by. */
export interface SpendingBasis {
  readonly gpusOf: GpusOf;
  readonly prices?: PriceTable | undefined;
}

/** One GPU for each server, and the servers' own prices. */
export const PLAIN_BASIS: SpendingBasis = { gpusOf: () => 1 };

/** What an answer cost; null for what is not known. */
export interface Spending {
  readonly gpuSeconds: number | null;
  /** Of its tokens, by the price table, or the server's prices without one. */
  readonly tokenCost: number | null;
  /** Of its GPU time at the price table's rent. */
  readonly gpuCost: number | null;
  /** GPU time by model; empty where it is not known. */
  readonly gpuSecondsOf: ReadonlyMap<string, number>;
}

/** What one answer cost. */
export function spendingOf(record: EvalRecord, { gpusOf, prices }: SpendingBasis): Spending {
  const byModel = gpuSeconds(record, gpusOf);
  const seconds = byModel === undefined ? null : [...byModel.values()].reduce((sum, one) => sum + one, 0);
  const rent = prices?.gpu_hour;
  return {
    gpuSeconds: seconds,
    tokenCost: record.work === undefined ? null : tokenCost(record.work, prices),
    gpuCost: seconds === null || rent === undefined ? null : seconds * rent / 3600,
    gpuSecondsOf: byModel ?? new Map(),
  };
}

/** The mean over several answers; null where that of one is not known. */
export function meanKnown(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length < values.length || known.length === 0 ? null : meanOf(known);
}
