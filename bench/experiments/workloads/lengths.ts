import { normalQuantile } from "../../statistics/normal.ts";

/** Lengths in tokens: log-normal, or by their quantiles. */
export interface Lengths {
  readonly median?: number | undefined;
  /** Standard deviation of the logarithm. */
  readonly sigma?: number | undefined;
  /** Shares of the lengths in (0, 1), rising, each with the length below which it lies. */
  readonly quantiles?: readonly (readonly [share: number, tokens: number])[] | undefined;
  /** No length is longer: a limit on tokens. */
  readonly max_tokens: number;
}

const MIN_TOKENS = 8;

/** The length at a standard normal number, in whole tokens: 0 gives the median. */
export function tokensAt(lengths: Lengths, normal: number): number {
  const tokens = Math.round(uncappedAt(lengths, normal));
  return Math.max(Math.min(MIN_TOKENS, lengths.max_tokens), Math.min(lengths.max_tokens, tokens));
}

function uncappedAt({ median, sigma, quantiles }: Lengths, normal: number): number {
  if (quantiles === undefined) return (median ?? 0) * Math.exp((sigma ?? 0) * normal);
  // Log-normal between two neighbours, and beyond the last ones as between them.
  const points = quantiles.map(([share, tokens]) => [normalQuantile(share), Math.log(tokens)] as const);
  const above = points.findIndex(([at]) => at > normal);
  const right = Math.max(1, above < 0 ? points.length - 1 : above);
  const [from, low] = points[right - 1] ?? [0, 0];
  const [to, high] = points[right] ?? [1, 0];
  return Math.exp(low + (high - low) * (normal - from) / (to - from));
}
