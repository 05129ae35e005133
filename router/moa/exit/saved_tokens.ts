/**
 * Estimate of the tokens that an agent was spared: what its peers that have finished wrote on average, less what it
 * had written itself, and no more than it was allowed. It is on the low side: who is still writing when others have
 * finished writes more than they did. 0 where no peer has finished.
 */
export function savedTokensEstimate(of: {
  /** Tokens of the finished members of its clusters. */
  readonly peers: readonly number[];
  readonly written: number;
  readonly maxTokens: number | undefined;
}): number {
  const { peers, written, maxTokens = Infinity } = of;
  if (peers.length === 0) return 0;
  const mean = peers.reduce((sum, tokens) => sum + tokens, 0) / peers.length;
  return Math.max(0, Math.round(Math.min(mean, maxTokens)) - written);
}
