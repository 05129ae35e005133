import { type Interval, sumOf, wilsonShare } from "./statistics.ts";

/** Answers to one question: how many there are, and how many of them were right. */
export interface QuestionHits {
  readonly hits: number;
  readonly count: number;
}

/**
 * 95 % interval of the share of right answers where questions were asked several times: Wilson's with the effective
 * number of answers (Korn & Graubard 1998), which is theirs by the cluster-robust variance over questions (Miller 2024,
 * "Adding Error Bars to Evals", without a factor for few questions). With one answer for each question it is Wilson's
 * interval. Never narrower than as many independent answers, and where all are right, or none is, as wide as one answer
 * for each question. 0 to 1 where there are none.
 */
export function clusteredInterval(questions: readonly QuestionHits[]): Interval {
  const asked = questions.filter(({ count }) => count > 0);
  const count = sumOf(asked.map((one) => one.count));
  const hits = sumOf(asked.map((one) => one.hits));
  return wilsonShare(hits / count, effectiveCount(asked, { hits, count }));
}

/** Independent answers that would say as much about the share of right ones. */
function effectiveCount(questions: readonly QuestionHits[], { hits, count }: QuestionHits): number {
  if (hits === 0 || hits === count) return questions.length;
  const share = hits / count;
  const squares = sumOf(questions.map((one) => (one.hits - share * one.count) ** 2));
  // The variance of independent answers by the clustered one, both times the square of the count.
  return Math.min(count, count * (count * share * (1 - share)) / squares);
}
