import { type Interval, mcnemarProbability } from "./statistics.ts";

/** Two ways to answer, over the same questions. */
export interface PairedAnswers {
  /** Questions that both have answered. */
  readonly answers: number;
  /** The first one's share of right answers less the second one's. */
  readonly difference: number;
  /** 95 % interval of the difference, for pairs (Agresti & Min 2005: half an answer added to each cell). */
  readonly interval: Interval;
  /** Answers that only the first one, only the second one got right. */
  readonly gained: number;
  readonly lost: number;
  /** McNemar's exact test. */
  readonly p: number;
}

const Z = 1.959964;

/** Compares two ways by whether each got a question right; NaN where there are no questions. */
export function pairedAnswers(right: readonly (readonly [first: boolean, second: boolean])[]): PairedAnswers {
  const gained = right.filter(([first, second]) => first && !second).length;
  const lost = right.filter(([first, second]) => !first && second).length;
  return {
    answers: right.length,
    difference: (gained - lost) / right.length,
    interval: differenceInterval(gained, lost, right.length),
    gained,
    lost,
    p: mcnemarProbability(gained, lost),
  };
}

function differenceInterval(gained: number, lost: number, answers: number): Interval {
  const [more, less, all] = [gained + 0.5, lost + 0.5, answers + 2];
  const middle = (more - less) / all;
  const half = Z * Math.sqrt(more + less - (more - less) ** 2 / all) / all;
  return { low: Math.max(-1, middle - half), high: Math.min(1, middle + half) };
}
