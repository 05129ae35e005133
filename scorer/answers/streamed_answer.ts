import { statesAnswer } from "./anchors.ts";
import type { AnswerExtractor } from "./extract.ts";
import type { FinalAnswer } from "./final_answer.ts";

/** Characters at the end of an unfinished text in which its final answer is looked for. */
const TAIL_LENGTH = 2_000;
/** The end of a sentence or a line with something behind it: what stands before it will not grow. */
const SENTENCE_END = /[.!?。！？]["')*_$}]{0,4}(?=\s)|\n/gu;

/**
 * The final answer of a text that is still being written; undefined unless it is announced ("The answer is …",
 * "#### …", `\boxed{…}`) in a sentence that has ended. A number at the end of an unfinished text is a step on the way.
 */
export function streamedAnswer(
  extract: AnswerExtractor,
  text: string,
  question: string,
): FinalAnswer | undefined {
  const whole = wholeSentences(text.slice(-TAIL_LENGTH));
  return whole !== "" && statesAnswer(whole) ? extract(whole, question) : undefined;
}

/** An unfinished text up to the end of its last whole sentence or line. */
export function wholeSentences(text: string): string {
  const last = [...text.matchAll(SENTENCE_END)].at(-1);
  return last === undefined ? "" : text.slice(0, last.index + last[0].length).trimEnd();
}
