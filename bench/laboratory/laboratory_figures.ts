import { Random } from "../../base/random.ts";
import type { LaboratoryRow } from "./ask.ts";
import { BEST_SINGLE, type Condition, DENSE, OVERLAPPED, TREE } from "./conditions.ts";
import { exitRateOf, type LaboratoryResult } from "./experiment.ts";
import { type PairedAnswers, pairedAnswers } from "../statistics/paired_answers.ts";
import {
  bootstrapInterval,
  type Interval,
  meanOf,
  type Summary,
  summaryOf,
  wilsonInterval,
} from "../statistics/statistics.ts";

/** Draws of the intervals of differences. */
const RESAMPLES = 2_000;

/** Means over the questions of one condition. */
export interface ConditionFigures {
  readonly name: string;
  readonly part: Condition["part"];
  readonly questions: number;
  readonly accuracy: number;
  readonly interval: Interval;
  readonly latencyMs: Summary;
  /** Mean time to the first token; undefined where it was not noted. */
  readonly firstMs: number | undefined;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly wastedTokens: number;
  readonly savedTokens: number;
  readonly exitRate: number;
  /** Proposers whose answers went on, the different final answers among them, and the share of questions with a right one. */
  readonly leaves: number;
  readonly differentAnswers: number;
  readonly rightAmongLeaves: number;
}

/** Two conditions over the same questions. */
export interface ConditionComparison extends PairedAnswers {
  readonly name: string;
  readonly against: string;
  /** Mean latency and written tokens as shares of the other's. */
  readonly latencyRatio: number;
  readonly latencyInterval: Interval;
  readonly tokensRatio: number;
}

/** When the first word of one condition comes, beside another one's over the same questions; means in ms. */
export interface FirstWordComparison {
  readonly name: string;
  readonly against: string;
  readonly questions: number;
  readonly firstMs: number;
  readonly againstMs: number;
  /** The first as a share of the second. */
  readonly ratio: number;
  readonly interval: Interval;
}

export function conditionFigures(
  { condition: { name, part }, rows }: LaboratoryResult["conditions"][number],
): ConditionFigures {
  const mean = (of: (row: LaboratoryRow) => number) => meanOf(rows.map(of));
  const firsts = rows.flatMap(({ firstMs }) => firstMs ?? []);
  const right = rows.filter((row) => row.right).length;
  return {
    name,
    part,
    questions: rows.length,
    accuracy: right / rows.length,
    interval: wilsonInterval(right, rows.length),
    latencyMs: summaryOf(rows.map(({ latencyMs }) => latencyMs)),
    firstMs: firsts.length < rows.length ? undefined : meanOf(firsts),
    promptTokens: mean((row) => row.promptTokens),
    completionTokens: mean((row) => row.completionTokens),
    wastedTokens: mean((row) => row.wastedTokens),
    savedTokens: mean((row) => row.savedTokens),
    exitRate: exitRateOf(rows),
    leaves: mean((row) => row.leaves),
    differentAnswers: mean((row) => row.differentAnswers),
    rightAmongLeaves: mean((row) => row.rightAmongLeaves ? 1 : 0),
  };
}

/** The comparisons that the experiment is for, of those whose conditions were measured. */
export function comparisonsOf({ conditions }: LaboratoryResult, seed: string): ConditionComparison[] {
  const byName = new Map(conditions.map(({ condition, rows }) => [condition.name, rows]));
  const { tokens, time } = votesLike(conditions);
  const wanted: (readonly [string, string | undefined])[] = [
    [TREE, DENSE],
    [OVERLAPPED, TREE],
    [TREE, BEST_SINGLE],
    [DENSE, BEST_SINGLE],
    [TREE, tokens],
    [TREE, time],
    ...conditions.flatMap(({ condition: { name, part } }) =>
      part === "exits" || part === "staircase" ? [[name, OVERLAPPED] as const] : []
    ),
    ...conditions.flatMap(({ condition: { name, asOftenAs } }) =>
      asOftenAs === undefined ? [] : [[asOftenAs, name] as const]
    ),
  ];
  const seen = new Set<string>();
  return wanted.flatMap(([name, against = ""]) => {
    const [rows, others] = [byName.get(name), byName.get(against)];
    if (rows === undefined || others === undefined || seen.has(`${name}\0${against}`)) return [];
    seen.add(`${name}\0${against}`);
    return [compare({ name, rows }, { name: against, rows: others }, seed)];
  });
}

/** When first words come with a staircase, beside mode #3 and the best single model; empty where none was measured. */
export function firstWordsOf({ conditions }: LaboratoryResult, seed: string): FirstWordComparison[] {
  const rowsOf = (name: string) => conditions.find(({ condition }) => condition.name === name)?.rows ?? [];
  const stairs = conditions.filter(({ condition: { part } }) => part === "staircase");
  const names = stairs.map(({ condition: { name } }) => name);
  const wanted: (readonly [string, string])[] = names.length === 0 ? [] : [
    ...names.map((name) => [name, OVERLAPPED] as const),
    ...[...names, OVERLAPPED].map((name) => [name, BEST_SINGLE] as const),
  ];
  return wanted.flatMap(([name, against]) => {
    const others = new Map(rowsOf(against).map(({ question, firstMs }) => [question, firstMs]));
    const pairs = rowsOf(name).flatMap(({ question, firstMs }) => {
      const other = others.get(question);
      return firstMs === undefined || other === undefined ? [] : [{ firstMs, other }];
    });
    if (pairs.length === 0) return [];
    const firstOf = (of: Readonly<typeof pairs>) => meanOf(of.map(({ firstMs }) => firstMs));
    const otherOf = (of: Readonly<typeof pairs>) => meanOf(of.map(({ other }) => other));
    const ratio = (of: Readonly<typeof pairs>) => firstOf(of) / otherOf(of);
    const draws = { random: new Random(`${seed}/first/${name}/${against}`), resamples: RESAMPLES };
    return [{
      name,
      against,
      questions: pairs.length,
      firstMs: firstOf(pairs),
      againstMs: otherOf(pairs),
      ratio: ratio(pairs),
      interval: bootstrapInterval(pairs, ratio, draws),
    }];
  });
}

/**
 * Of self-consistency the vote that writes about as many tokens as the tree, and the largest that takes no longer; undefined
 * where none was measured, or none is as fast.
 */
export function votesLike(
  conditions: LaboratoryResult["conditions"],
): { readonly tokens: string | undefined; readonly time: string | undefined } {
  const figures = conditions.map(conditionFigures);
  const tree = figures.find(({ name }) => name === TREE);
  const votes = figures.filter(({ part }) => part === "samples");
  if (tree === undefined) return { tokens: undefined, time: undefined };
  const far = ({ completionTokens }: ConditionFigures) =>
    Math.abs(Math.log(completionTokens / tree.completionTokens));
  return {
    tokens: votes.toSorted((a, b) => far(a) - far(b))[0]?.name,
    time: votes.findLast(({ latencyMs }) => latencyMs.mean <= tree.latencyMs.mean)?.name,
  };
}

interface NamedRows {
  readonly name: string;
  readonly rows: readonly LaboratoryRow[];
}

function compare(one: NamedRows, other: NamedRows, seed: string): ConditionComparison {
  const others = new Map(other.rows.map((row) => [row.question, row]));
  const pairs = one.rows.flatMap((row) => {
    const against = others.get(row.question);
    return against === undefined ? [] : [{ row, against }];
  });
  const draws = { random: new Random(`${seed}/${one.name}/${other.name}`), resamples: RESAMPLES };
  type Pairs = typeof pairs;
  const ratio = (part: (row: LaboratoryRow) => number) => (of: Readonly<Pairs>) =>
    meanOf(of.map(({ row }) => part(row))) / meanOf(of.map(({ against }) => part(against)));
  const latency = ratio(({ latencyMs }) => latencyMs);
  return {
    name: one.name,
    against: other.name,
    ...pairedAnswers(pairs.map(({ row, against }) => [[row.right, against.right]])),
    latencyRatio: latency(pairs),
    latencyInterval: bootstrapInterval(pairs, latency, draws),
    tokensRatio: ratio(({ completionTokens }) => completionTokens)(pairs),
  };
}
