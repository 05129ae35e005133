import type { PriceConfig } from "../../../cfgs/schema/config.ts";

const MILLION = 1_000_000;

/** Tokens that are paid for. */
export interface PaidTokens {
  readonly promptTokens: number;
  /** Of these, the ones that were found in a cache; undefined: the engine did not say. */
  readonly cachedTokens?: number | undefined;
  readonly completionTokens: number;
}

/** Cost of a model's tokens, in the currency of its price. */
export function costOfTokens(
  { prompt, cached = prompt, completion }: PriceConfig,
  { promptTokens, cachedTokens = 0, completionTokens }: PaidTokens,
): number {
  const found = Math.min(cachedTokens, promptTokens);
  return ((promptTokens - found) * prompt + found * cached + completionTokens * completion) / MILLION;
}
