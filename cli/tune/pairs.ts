import { areaUnderCurve } from "../../bench/statistics/statistics.ts";
import { quantile } from "../../bench/statistics/statistics.ts";
import { earlyExitSchema } from "../../cfgs/schema/early_exit.ts";
import { compare } from "../kit/answers/compared_group.ts";
import type { LabelledGroup } from "./replay.ts";
import { answerExtractor } from "../../scorer/answers/extract.ts";
import { equalAnswers } from "../../scorer/answers/equal_answers.ts";
import type { SimilarityMetric } from "../../scorer/scorer.ts";

/** Separation of two kinds of pairs by a figure. */
export interface PairFigures {
  readonly metric: string;
  /** Probability that a pair that agrees has the higher number than one that disagrees; NaN when a kind is missing. */
  readonly agreeAuc: number;
  /** The same for pairs of one question against pairs of two questions. */
  readonly topicAuc: number;
  readonly agreeMedian: number;
  readonly disagreeMedian: number;
  readonly unrelatedMedian: number;
}

/** Most pairs of different questions. */
const MAX_UNRELATED = 1_000;

/** For each similarity, for equal final answers and for verdicts: what it sees. */
export async function pairFigures(
  groups: readonly LabelledGroup[],
  metrics: readonly SimilarityMetric[],
): Promise<PairFigures[]> {
  const figures: PairFigures[] = [];
  for (const metric of metrics) {
    const unrelated = await unrelatedValues(groups, metric);
    figures.push(
      figuresOf(metric, groups, (group, a, b) => group.compared.similarity(metric, a, b)?.value, unrelated),
    );
  }
  const extract = answerExtractor(earlyExitSchema.parse({}).answer);
  figures.push(figuresOf("answer", groups, ({ compared: { group } }, a, b) => {
    const [first, second] = [a, b].map((place) => extract(group.answers[place]!.text, group.question));
    return first === undefined || second === undefined ? 0.5 : equalAnswers(first, second) ? 1 : 0;
  }, []));
  if (groups.some(({ compared }) => compared.group.answers.some(({ verdicts }) => verdicts.size > 0))) {
    figures.push(figuresOf("verdict", groups, ({ compared }, a, b) => compared.verdict(a, b) ?? 0.5, []));
  }
  return figures;
}

function figuresOf(
  metric: string,
  groups: readonly LabelledGroup[],
  valueOf: (group: LabelledGroup, a: number, b: number) => number | undefined,
  unrelated: readonly number[],
): PairFigures {
  const agree: number[] = [];
  const disagree: number[] = [];
  for (const group of groups) {
    for (const [b, second] of group.labels.entries()) {
      for (const [a, first] of group.labels.slice(0, b).entries()) {
        const value = valueOf(group, a, b);
        if (value === undefined || first === undefined || second === undefined) continue;
        (first === second ? agree : disagree).push(value);
      }
    }
  }
  return {
    metric,
    agreeAuc: areaUnderCurve(agree, disagree),
    topicAuc: areaUnderCurve([...agree, ...disagree], unrelated),
    agreeMedian: median(agree),
    disagreeMedian: median(disagree),
    unrelatedMedian: median(unrelated),
  };
}

/** Of the first answers of different groups, evenly spread over all pairs of groups. */
async function unrelatedValues(
  groups: readonly LabelledGroup[],
  metric: SimilarityMetric,
): Promise<number[]> {
  const pairs = groups.flatMap((_, b) => groups.slice(0, b).map((_, a) => [a, b] as const));
  const step = Math.max(1, Math.ceil(pairs.length / MAX_UNRELATED));
  const values: number[] = [];
  for (const [a, b] of pairs.filter((_, index) => index % step === 0)) {
    const [first, second] = [groups[a]!.compared.features[0], groups[b]!.compared.features[0]];
    if (first === undefined || second === undefined) continue;
    const { value } = await compare(first, second, metric);
    if (value !== undefined) values.push(value);
  }
  return values;
}

function median(values: readonly number[]): number {
  return quantile([...values].sort((a, b) => a - b), 0.5);
}
