import { Random } from "../../base/random.ts";
import { type Interval, quantile } from "./statistics.ts";

/** Draws of questions with repetition, always the same ones. */
const RESAMPLES = 2_000;
const SEED = "paired bootstrap";

/** What the paired bootstrap makes of two ways over the same questions. */
export interface PairedBootstrap {
  /** The middle 95 % of the figure over draws of questions (Efron's percentile interval). */
  readonly interval: Interval;
  /** Two-sided: twice the share of draws on the other side of no difference, at most 1; of draws at it half. */
  readonly p: number;
}

/** Sums over a question's answers: of the first and of the second way. */
export type QuestionSums = readonly [first: number, second: number];

/** Figure of two ways by their sums over all questions. */
export type PairedFigure = (first: number, second: number) => number;

/**
 * The paired bootstrap (Efron & Tibshirani 1993): questions are drawn with repetition, each with the answers of both
 * ways. `none`: the figure's value where they do not differ. NaN where there are no questions.
 */
export function pairedBootstrap(
  questions: readonly QuestionSums[],
  figureOf: PairedFigure,
  none: number,
): PairedBootstrap {
  const random = new Random(SEED);
  const count = questions.length;
  const firsts = Float64Array.from(questions, ([one]) => one);
  const seconds = Float64Array.from(questions, ([, other]) => other);
  const figures = Array.from({ length: count === 0 ? 0 : RESAMPLES }, () => {
    let [first, second] = [0, 0];
    for (let drawn = 0; drawn < count; drawn++) {
      const at = Math.floor(random.uint32() / 2 ** 32 * count);
      first += firsts[at]!;
      second += seconds[at]!;
    }
    return figureOf(first, second);
  }).sort((a, b) => a - b);
  const share = (is: (figure: number) => boolean) => figures.filter(is).length / figures.length;
  const below = share((figure) => figure < none) + share((figure) => figure === none) / 2;
  return {
    interval: { low: quantile(figures, 0.025), high: quantile(figures, 0.975) },
    p: Math.min(1, 2 * Math.min(below, 1 - below)),
  };
}

/** The paired bootstrap of the difference of two means over so many answers. */
export function bootstrapDifference(questions: readonly QuestionSums[], answers: number): PairedBootstrap {
  return pairedBootstrap(questions, (first, second) => (first - second) / answers, 0);
}

/** The paired bootstrap of the first way's sum by the second one's, such as of times. */
export function bootstrapRatio(questions: readonly QuestionSums[]): PairedBootstrap {
  return pairedBootstrap(questions, (first, second) => first / second, 1);
}
