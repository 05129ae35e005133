import { type Interval, mcnemarProbability, signFlipProbability, sumOf } from "./statistics.ts";

/** Whether each of two ways got a question right, asked once. */
export type PairedAnswer = readonly [first: boolean, second: boolean];

/** Two ways to answer, over the same questions. */
export interface PairedAnswers {
  /** Answers that both have given. */
  readonly answers: number;
  /** Questions of these answers: fewer, where questions were asked several times. */
  readonly questions: number;
  /** The first one's share of right answers less the second one's. */
  readonly difference: number;
  /**
   * 95 % interval of the difference, for pairs (Agresti & Min 2005: half a question added to each cell). Answers to one
   * question are not independent: it is an interval over questions, each with the sum over its answers.
   */
  readonly interval: Interval;
  /** Answers that only the first one, only the second one got right. */
  readonly gained: number;
  readonly lost: number;
  /** McNemar's exact test; over questions that were asked several times the exact sign-flip test, which is the same for one answer. */
  readonly p: number;
}

const Z = 1.959964;

/** Compares two ways by their answers to each question; NaN where there are no questions. */
export function pairedAnswers(questions: readonly (readonly PairedAnswer[])[]): PairedAnswers {
  const all = questions.flat();
  const gained = all.filter(([first, second]) => first && !second).length;
  const lost = all.filter(([first, second]) => !first && second).length;
  const differences = questions.map((answers) =>
    sumOf(answers.map(([first, second]) => Number(first) - Number(second)))
  );
  const mean = all.length / questions.length;
  return {
    answers: all.length,
    questions: questions.length,
    difference: (gained - lost) / all.length,
    interval: differenceInterval(differences.map((one) => one / mean)),
    gained,
    lost,
    p: mean > 1 ? signFlipProbability(differences) : mcnemarProbability(gained, lost),
  };
}

/** Of the mean of differences from -1 to 1. */
function differenceInterval(differences: readonly number[]): Interval {
  const [sum, all] = [sumOf(differences), differences.length + 2];
  const squares = sumOf(differences.map((one) => one ** 2)) + 1;
  const middle = sum / all;
  const half = Z * Math.sqrt(squares - sum ** 2 / all) / all;
  return { low: Math.max(-1, middle - half), high: Math.min(1, middle + half) };
}
