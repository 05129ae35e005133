import { Random } from "../../base/random.ts";
import type { ProposalRow } from "./predictors.ts";
import { leaderIsRight, type StoppingRule, stoppingRules } from "./stopping_rules.ts";
import { bootstrapInterval, type Interval, meanOf } from "../statistics/statistics.ts";

/** Draws of the intervals; the questions are drawn. */
const RESAMPLES = 1_000;
/** Orders in which a question's answers come. */
const ORDERS = 20;

/** What it is worth to read answers one by one until a rule holds. */
export interface StoppingFigures {
  readonly rule: string;
  /** So many equal final answers end the reading; Infinity: all are read; undefined: the rule asks for something else. */
  readonly agree: number | undefined;
  /** Mean of the answers that were read. */
  readonly read: number;
  readonly accuracy: number;
  /** The most frequent one of as many answers, however much they agree: the rule's stops, dealt out by chance. */
  readonly chance: number;
  /** Of the accuracies: the rule's less that of chance. */
  readonly difference: number;
  readonly interval: Interval;
  /** Share of the orders in which the rule does not end the reading: the most frequent answer of all is given. */
  readonly undecided: number;
  /** Share of right answers in those; NaN where there are none. */
  readonly leader: number;
  /** The same of whole runs on the same questions, as often as each was undecided; NaN where they were not measured. */
  readonly whole: number;
  /** Of all right answers: what giving the leader in place of a whole run changes. */
  readonly change: number;
  readonly changeInterval: Interval;
}

/** The means of one question, over all orders. */
interface Stopped {
  readonly read: number;
  readonly rule: number;
  readonly chance: number;
  /** Shares of the orders: those that the rule did not end, and of these the ones in which the leader is right. */
  readonly undecided: number;
  readonly leader: number;
  /** 1 where the whole run is right. */
  readonly whole: number;
}

/**
 * Rules that end a whole run, beside chance at their own spending; from the drawn answers of all models. `whole`: whether a whole run
 * was right, by question.
 */
export function stoppingFigures(
  rows: readonly ProposalRow[],
  seed: string,
  whole: ReadonlyMap<string, boolean> = new Map(),
): StoppingFigures[] {
  if (rows.length === 0) return [];
  return stoppingRules(rows).map((rule) => {
    const stopped = stoppedBy(rows, rule, { seed, whole });
    const undecided = meanOf(stopped.map((one) => one.undecided));
    const change = (of: readonly Stopped[]) =>
      meanOf(of.map((one) => one.leader - one.undecided * one.whole));
    const difference = (of: readonly Stopped[]) => meanOf(of.map(({ rule, chance }) => rule - chance));
    const draws = { random: new Random(`${seed}/stopping/${rule.agree ?? rule.name}`), resamples: RESAMPLES };
    return {
      rule: rule.name,
      agree: rule.agree,
      read: meanOf(stopped.map(({ read }) => read)),
      accuracy: meanOf(stopped.map(({ rule }) => rule)),
      chance: meanOf(stopped.map(({ chance }) => chance)),
      difference: difference(stopped),
      interval: bootstrapInterval(stopped, difference, draws),
      undecided,
      leader: meanOf(stopped.map(({ leader }) => leader)) / undecided,
      whole: meanOf(stopped.map((one) => one.undecided * one.whole)) / undecided,
      change: change(stopped),
      changeInterval: bootstrapInterval(stopped, change, draws),
    };
  });
}

function stoppedBy(
  rows: readonly ProposalRow[],
  rule: StoppingRule,
  { seed, whole }: { readonly seed: string; readonly whole: ReadonlyMap<string, boolean> },
): Stopped[] {
  // The same orders for every rule.
  const random = new Random(`${seed}/stopping`);
  const orders = rows.map(({ proposals }) =>
    Array.from({ length: ORDERS }, () => random.shuffled(proposals))
  );
  const stops = orders.map((each, question) => each.map((order) => rule.stop(order, question)));
  const counts = orders.map((each, question) => each.map(({ length }, at) => stops[question]![at] ?? length));
  const dealt = random.shuffled(counts.flat());
  return orders.map((each, question) => ({
    read: meanOf(counts[question]!),
    undecided: meanOf(stops[question]!.map((stop) => Number(stop === undefined))),
    leader: meanOf(each.map((order, at) => stops[question]![at] === undefined ? leaderIsRight(order) : 0)),
    whole: Number(whole.get(rows[question]!.question) ?? NaN),
    rule: meanOf(each.map((order, at) => rule.gives(order.slice(0, counts[question]![at])))),
    chance: meanOf(each.map((order, at) => leaderIsRight(order.slice(0, dealt[question * ORDERS + at])))),
  }));
}
