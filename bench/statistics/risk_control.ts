/** P(X ≤ hits) of a binomial distribution over `count` trials of probability `p`. */
export function binomialTail(hits: number, count: number, p: number): number {
  if (hits >= count) return 1;
  let log = count * Math.log1p(-p);
  let sum = Math.exp(log);
  for (let k = 1; k <= hits; k++) {
    log += Math.log((count - k + 1) / k) + Math.log(p / (1 - p));
    sum += Math.exp(log);
  }
  return Math.min(1, sum);
}

/** Runs without a single loss that show a risk of at most `risk` with this confidence: fewer show nothing. */
export function leastRuns(risk: number, confidence: number): number {
  return Math.ceil(Math.log(1 - confidence) / Math.log1p(-risk));
}

/** Highest risk that so many losses in so many runs leave open with this confidence (Clopper and Pearson 1934). */
export function riskBound(losses: number, runs: number, confidence: number): number {
  if (losses >= runs) return 1;
  let [low, high] = [losses / runs, 1];
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (binomialTail(losses, runs, middle) > 1 - confidence) low = middle;
    else high = middle;
  }
  return high;
}

/** What a rule did on recorded runs. */
export interface RuleLosses {
  readonly losses: number;
  readonly runs: number;
}

/**
 * Rules whose risk is at most `risk`, for all of them together with this confidence: Learn then Test (Angelopoulos and
 * others 2021) with exact binomial tests. Each chain begins with its most cautious rule and is tested in that order, up
 * to the first rule that fails; the chains share what may go wrong.
 */
export function safeRules<Rule extends RuleLosses>(
  chains: readonly (readonly Rule[])[],
  { risk, confidence }: { readonly risk: number; readonly confidence: number },
): Rule[] {
  const level = (1 - confidence) / chains.length;
  return chains.flatMap((chain) => {
    const failing = chain.findIndex(({ losses, runs }) => binomialTail(losses, runs, risk) > level);
    return chain.slice(0, failing < 0 ? chain.length : failing);
  });
}
