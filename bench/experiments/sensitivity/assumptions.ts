import { type QuestionLengths, questionLengths } from "../workload.ts";
import { tokensAt } from "../workloads/lengths.ts";
import type { BenchWorkload } from "../workloads/workload_file.ts";

/** Serving of the modes: pairs, one GPU per model, or as the paper joins its figures. */
export type AssumedServing = "pairs" | "single" | "joined";

/** All that a cut depends on beside the method, and the paper does not say. */
export interface Assumptions {
  /** Standard deviation of the logarithm of all answers' lengths; that of the workload if absent. */
  readonly sigma?: number;
  /** Between the lengths of the answers to one question; that of the workload if absent. */
  readonly correlation?: number;
  /** Factor on the answers of 4b and 8b. */
  readonly small: number;
  /** Factor on the answers behind the first layer. */
  readonly later: number;
  /** Limit on every answer beside the workload's. */
  readonly limit: number;
  /** Most tokens of an answer that its successors read. */
  readonly readTokens: number;
  readonly serving: AssumedServing;
  readonly atOnce: number;
  /** Chance that a cluster ends after an answer, from the so-manieth on. */
  readonly exit: { readonly chance: number; readonly from: number };
}

/** The assumptions from which each change departs: what the paper states, and the workload's figures. */
export const BASE_ASSUMPTIONS: Assumptions = {
  small: 1,
  later: 1,
  limit: Infinity,
  readTokens: Infinity,
  serving: "pairs",
  atOnce: 1,
  exit: { chance: 0.85, from: 2 },
};

/** One assumption that is made otherwise. */
export interface AssumptionChange {
  /** Changes of one subject exclude each other. */
  readonly subject: string;
  readonly name: string;
  readonly change: Partial<Assumptions>;
  /**
   * `bound`: beyond what the method can do, to show a limit; in no set of assumptions that reach a cut. `stated`: against
   * what the paper states, so in such sets only where this is asked for.
   */
  readonly against?: "bound" | "stated";
}

/** The small grid: each is tried alone, and those that help together. */
export const ASSUMPTION_CHANGES: readonly AssumptionChange[] = [
  { subject: "spread", name: "answers all of their median length", change: { sigma: 0 } },
  { subject: "spread", name: "heavier tail: sigma 1.5", change: { sigma: 1.5 } },
  {
    subject: "correlation",
    name: "lengths of one question's answers independent",
    change: { correlation: 0 },
  },
  { subject: "correlation", name: "lengths of one question's answers in step", change: { correlation: 1 } },
  { subject: "small models", name: "4b and 8b write half as much", change: { small: 0.5 } },
  { subject: "small models", name: "4b and 8b write 3 times as much", change: { small: 3 } },
  { subject: "later layers", name: "aggregators and root write a quarter", change: { later: 0.25 } },
  { subject: "later layers", name: "aggregators and root write a tenth", change: { later: 0.1 } },
  { subject: "limit", name: "at most 16,384 tokens", change: { limit: 16_384 } },
  { subject: "limit", name: "at most 2,048 tokens", change: { limit: 2_048 } },
  { subject: "reading", name: "successors read 1,000 tokens of an answer", change: { readTokens: 1_000 } },
  { subject: "serving", name: "one GPU per model", change: { serving: "single" } },
  { subject: "serving", name: "#1 and #2 on one GPU per model, joined on #2", change: { serving: "joined" } },
  {
    subject: "load",
    name: "8 questions at a time (the paper: one)",
    change: { atOnce: 8 },
    against: "stated",
  },
  {
    subject: "load",
    name: "32 questions at a time (the paper: one)",
    change: { atOnce: 32 },
    against: "stated",
  },
  {
    subject: "exits",
    name: "exits: 60 % from the second answer on",
    change: { exit: { chance: 0.6, from: 2 } },
  },
  {
    subject: "exits",
    name: "exits as printed: 70 % from the first answer on",
    change: { exit: { chance: 0.7, from: 1 } },
  },
  {
    subject: "exits",
    name: "bound: every cluster ends with its first answer",
    change: { exit: { chance: 1, from: 1 } },
    against: "bound",
  },
];

/** A workload's questions under these assumptions. */
export function assumedQuestions(
  workload: BenchWorkload,
  assumptions: Assumptions,
  { count, seed }: { readonly count: number; readonly seed: string },
): QuestionLengths[] {
  const { small, later, limit } = assumptions;
  const changed: BenchWorkload = {
    ...workload,
    answers: workload.answers.map((answer) => {
      // Limits cut what the factors have made.
      const uncut = { ...answer, max_tokens: NO_LIMIT };
      if (assumptions.sigma === undefined) return uncut;
      return { ...uncut, quantiles: undefined, median: tokensAt(uncut, 0), sigma: assumptions.sigma };
    }),
    correlation: { ...workload.correlation, agents: assumptions.correlation ?? workload.correlation.agents },
  };
  const most = Math.min(limit, ...workload.answers.map((answer) => answer.max_tokens));
  return Array.from({ length: count }, (_, index): QuestionLengths => {
    const { tokens, answerTokens } = questionLengths(changed, index, seed);
    return {
      tokens,
      answerTokens: (place) => {
        const factor = (place.model === "32b" ? 1 : small) * (place.layer === 0 ? 1 : later);
        return Math.max(2, Math.min(most, Math.round(factor * answerTokens(place))));
      },
    };
  });
}

const NO_LIMIT = 1e9;
