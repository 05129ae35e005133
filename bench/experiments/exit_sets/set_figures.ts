import type { Random } from "../../../base/random.ts";
import { pairedAnswers } from "../../statistics/paired_answers.ts";
import { bootstrapInterval, type Interval, meanOf, quantile } from "../../statistics/statistics.ts";
import type { TopologyOutcome } from "../topology/costed_topology.ts";

/** What is asked of a rule, against #1: least cuts of the mean latency and of its p95, and most that right answers may be fewer by. */
export const EXIT_GOAL = { mean: 0.8, p95: 0.75, right: 0.01 } as const;

/** A figure with its 95 % interval over the questions, and its least and greatest value over the sets. */
export interface SetFigure {
  readonly value: number;
  readonly interval: Interval;
  readonly sets: Interval;
}

/** The figures of one way to answer over all sets; latencies in ms, tokens as means over the questions. */
export interface SetFigures {
  readonly name: string;
  readonly meanMs: number;
  readonly p95Ms: number;
  /** Cuts against #1, as shares. */
  readonly meanCut: SetFigure;
  readonly p95Cut: SetFigure;
  readonly tokens: number;
  /** Of the tokens of #1, and of #2, those that it does not write. */
  readonly spared: { readonly dense: number; readonly tree: number };
  /** Share of right answers. */
  readonly right: number;
  /** Less #1's, with the interval for pairs. */
  readonly difference: number;
  readonly interval: Interval;
  /** Share of right answers after as many answers, whatever they say; undefined where no rule reads answers. */
  readonly chance: number | undefined;
  /** Share of the questions that ended before the root. */
  readonly early: number;
  /** Whether the figures are those of `EXIT_GOAL`. */
  readonly reached: Readonly<Record<keyof typeof EXIT_GOAL, boolean>>;
}

/** Outcomes of the same questions, set by set. */
export type SetOutcomes = readonly (readonly TopologyOutcome[])[];

const RESAMPLES = 400;

/** The figures of one way beside #1 and #2. */
export function setFigures(
  { name, outcomes, chance }: {
    readonly name: string;
    readonly outcomes: SetOutcomes;
    readonly chance: SetOutcomes | undefined;
  },
  { dense, tree, random }: {
    readonly dense: SetOutcomes;
    readonly tree: SetOutcomes;
    readonly random: Random;
  },
): SetFigures {
  const all = outcomes.flat();
  const cutOf = (figure: (latencies: readonly number[]) => number, part: string): SetFigure => {
    const cut = (pairs: readonly LatencyPair[]) =>
      1 - figure(pairs.map(({ own }) => own)) / figure(pairs.map((pair) => pair.dense));
    const sets = outcomes.map((set, at) => cut(pairsOf(set, dense[at]!)));
    const pairs = pairsOf(all, dense.flat());
    return {
      value: cut(pairs),
      interval: bootstrapInterval(pairs, cut, { random: random.stream(part), resamples: RESAMPLES }),
      sets: { low: Math.min(...sets), high: Math.max(...sets) },
    };
  };
  const meanCut = cutOf(meanOf, "mean");
  const p95Cut = cutOf(percentile95, "p95");
  const tokens = (of: SetOutcomes) => meanOf(of.flat().map((one) => one.tokens));
  const right = (of: SetOutcomes) => meanOf(of.flat().map((one) => Number(one.right)));
  const denseAnswers = dense.flat();
  const { difference, interval } = pairedAnswers(
    all.map((one, at) => [[one.right, denseAnswers[at]?.right === true]]),
  );
  return {
    name,
    meanMs: meanOf(all.map(({ latencyMs }) => latencyMs)),
    p95Ms: percentile95(all.map(({ latencyMs }) => latencyMs)),
    meanCut,
    p95Cut,
    tokens: tokens(outcomes),
    spared: { dense: 1 - tokens(outcomes) / tokens(dense), tree: 1 - tokens(outcomes) / tokens(tree) },
    right: right(outcomes),
    difference,
    interval,
    chance: chance && right(chance),
    early: meanOf(all.map(({ votes }) => Number(votes !== undefined))),
    reached: {
      mean: meanCut.value >= EXIT_GOAL.mean,
      p95: p95Cut.value >= EXIT_GOAL.p95,
      right: difference >= -EXIT_GOAL.right,
    },
  };
}

/** Latencies of one question in ms. */
interface LatencyPair {
  readonly own: number;
  readonly dense: number;
}

function pairsOf(own: readonly TopologyOutcome[], dense: readonly TopologyOutcome[]): LatencyPair[] {
  return own.map(({ latencyMs }, at) => ({ own: latencyMs, dense: dense[at]?.latencyMs ?? NaN }));
}

function percentile95(latencies: readonly number[]): number {
  return quantile([...Float64Array.from(latencies).sort()], 0.95);
}
