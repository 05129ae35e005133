import type { Random } from "../../../base/random.ts";
import { nextMean, nextShare } from "../../statistics/prediction.ts";
import { bootstrapInterval, type Interval, meanOf, wilsonInterval } from "../../statistics/statistics.ts";
import type { TopologyOutcome } from "./costed_topology.ts";

/** Figures of a candidate: share of right answers, and means of latency in ms and of tokens written. */
export const TOPOLOGY_FIGURES = ["right", "latencyMs", "tokens"] as const;

export type TopologyFigure = (typeof TOPOLOGY_FIGURES)[number];

/** A number, or bounds, for each figure. */
export type ByFigure<Value> = Readonly<Record<TopologyFigure, Value>>;

const RESAMPLES = 1_000;
/** Probability that all figures of a run are within their bounds; each one's is higher. */
const JOINT_CONFIDENCE = 0.95;

/** Means over the outcomes. */
export function topologyMeans(outcomes: readonly TopologyOutcome[]): ByFigure<number> {
  return {
    right: meanOf(outcomes.map(({ right }) => Number(right))),
    latencyMs: meanOf(outcomes.map(({ latencyMs }) => latencyMs)),
    tokens: meanOf(outcomes.map(({ tokens }) => tokens)),
  };
}

/** 95 % intervals of the means. */
export function topologyIntervals(outcomes: readonly TopologyOutcome[], random: Random): ByFigure<Interval> {
  const mean = (figure: "latencyMs" | "tokens") =>
    bootstrapInterval(outcomes.map((outcome) => outcome[figure]), meanOf, {
      random: random.stream(figure),
      resamples: RESAMPLES,
    });
  const hits = outcomes.filter(({ right }) => right).length;
  return {
    right: wilsonInterval(hits, outcomes.length),
    latencyMs: mean("latencyMs"),
    tokens: mean("tokens"),
  };
}

/** Bounds within which all means of a run of `next` further questions are with a probability of 95 %. */
export function nextIntervals(
  outcomes: readonly TopologyOutcome[],
  next: number,
  random: Random,
): ByFigure<Interval> {
  const confidence = 1 - (1 - JOINT_CONFIDENCE) / TOPOLOGY_FIGURES.length;
  const mean = (figure: "latencyMs" | "tokens") =>
    nextMean(outcomes.map((outcome) => outcome[figure]), {
      next,
      confidence,
      random: random.stream(`next ${figure}`),
      resamples: RESAMPLES,
    });
  const hits = outcomes.filter(({ right }) => right).length;
  return {
    right: nextShare({ hits, count: outcomes.length, next, confidence }),
    latencyMs: mean("latencyMs"),
    tokens: mean("tokens"),
  };
}
