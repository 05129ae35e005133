import type { JsonObject } from "../../base/json.ts";
import type { AnswerRules } from "../../cfgs/schema/early_exit.ts";

/** Votes of a cluster's members so far. */
export interface Votes {
  /** Group of each completion, in order of arrival; undefined: it votes for nothing. */
  readonly order: readonly (number | undefined)[];
  /** Members that have not answered. */
  readonly remaining: number;
}

/** Result of a stop rule for the largest group, with its numbers. */
export interface StopResult {
  readonly holds: boolean;
  readonly numbers: JsonObject;
}

/** Applies the rule that the settings name. One vote agrees with nobody: without two equal ones no rule holds. */
export function stopRule(
  { stop, level, window }: Pick<AnswerRules, "stop" | "level" | "window">,
  votes: Votes,
): StopResult {
  const counts = countsOf(votes.order);
  const numbers = { stop, votes: counts, remaining: votes.remaining };
  if ((counts[0] ?? 0) < 2) return { holds: false, numbers };
  if (stop === "majority") return { holds: majorityIsSettled(counts, votes.remaining), numbers };
  if (stop === "window") {
    return { holds: windowIsUnanimous(votes.order, window), numbers: { ...numbers, window } };
  }
  const posterior = leaderPosterior(counts);
  return {
    holds: posterior >= level,
    numbers: { ...numbers, posterior, level },
  };
}

/** Sizes of the groups, the largest first. */
export function countsOf(order: readonly (number | undefined)[]): number[] {
  const counts = new Map<number, number>();
  for (const group of order) if (group !== undefined) counts.set(group, (counts.get(group) ?? 0) + 1);
  return [...counts.values()].sort((a, b) => b - a);
}

/**
 * True when the largest group stays the largest whatever the remaining members answer: it has more votes than the
 * second one would have with all of them. The bound is exact: the outcome of the vote cannot change.
 */
export function majorityIsSettled(counts: readonly number[], remaining: number): boolean {
  const [first = 0, second = 0] = counts;
  return first > second + remaining;
}

/**
 * Probability that the largest group is the most frequent answer of all that could be drawn, given the votes and a
 * uniform prior: P(p₁ > pᵢ for all i) under Dirichlet(v₁ + 1, …, vₖ + 1), with one answer not yet seen when all
 * votes are equal. With up to two groups this is Adaptive-Consistency's Beta criterion (Aggarwal et al. 2023,
 * arXiv 2305.11860). It takes votes as independent draws of one model, which members of different sizes are not.
 */
export function leaderPosterior(counts: readonly number[]): number {
  const [first = 0, ...others] = counts;
  if (others.length <= 1) return betaUpperHalf(first, others[0] ?? 0);
  return dirichletLeader(first, others);
}

/**
 * True when the last `window` answers are equal (ESC, Li et al. 2024, arXiv 2401.10480; there windows do not overlap,
 * here the last one slides). Bound: where no answer has a probability above a half, all w answers of one window are
 * equal with probability Σ pᵢʷ ≤ 2^(1−w).
 */
export function windowIsUnanimous(order: readonly (number | undefined)[], window: number): boolean {
  const last = order.slice(-window);
  return last.length === window && last[0] !== undefined && last.every((group) => group === last[0]);
}

/** P(p > ½) for p ~ Beta(a + 1, b + 1), which for whole numbers is P(Binomial(a + b + 1, ½) ≤ a). */
function betaUpperHalf(a: number, b: number): number {
  const n = a + b + 1;
  let term = 2 ** -n;
  let sum = 0;
  for (let k = 0; k <= a; k++) {
    sum += term;
    term *= (n - k) / (k + 1);
  }
  return Math.min(1, sum);
}

/**
 * The same as a race of Gamma variables: ∫ f(x; v₁ + 1) Πᵢ F(x; vᵢ + 1) dx by Simpson's rule, whose error is below
 * 1e-9 for the sizes of clusters.
 */
function dirichletLeader(first: number, others: readonly number[]): number {
  const end = first + 1 + 14 * Math.sqrt(first + 1) + 30;
  const steps = 4_000;
  const width = end / steps;
  const logFactorial = logFactorialOf(first);
  const valueAt = (x: number): number => {
    if (x === 0) return 0;
    const density = Math.exp(first * Math.log(x) - x - logFactorial);
    return others.reduce((product, votes) => product * gammaDistribution(x, votes + 1), density);
  };
  let sum = valueAt(0) + valueAt(end);
  for (let step = 1; step < steps; step++) sum += (step % 2 === 1 ? 4 : 2) * valueAt(step * width);
  return Math.min(1, sum * width / 3);
}

/** P(X ≤ x) for X ~ Gamma(shape, 1), of a whole shape. */
function gammaDistribution(x: number, shape: number): number {
  let term = Math.exp(-x);
  let tail = 0;
  for (let k = 0; k < shape; k++) {
    tail += term;
    term *= x / (k + 1);
  }
  return Math.max(0, 1 - tail);
}

function logFactorialOf(n: number): number {
  let sum = 0;
  for (let k = 2; k <= n; k++) sum += Math.log(k);
  return sum;
}
