import { escaped, firstCharacter, splitWords, withoutMarks, WORD_EDGE } from "../python/python_text.ts";
import type { Checkers } from "./checker.ts";

/** Constraints on sentences in their order. */
export const SENTENCE_CHECKERS: Checkers = {
  "sentence:keyword": (text, given, sentences) => {
    const sentence = sentences(text)[given.position("N") - 1];
    const word = given.text("word");
    return sentence !== undefined &&
      new RegExp(`${WORD_EDGE}${escaped(word)}${WORD_EDGE}`, "iu").test(sentence);
  },
  "sentence:increment": (text, given, sentences) => {
    const more = given.number("small_n");
    const counts = sentences(text).map((sentence) => splitWords(withoutMarks(sentence)).length);
    return counts.length > 0 &&
      counts.every((count, index) => index === 0 || count === counts[index - 1]! + more);
  },
  "sentence:alliteration_increment": (text, _given, sentences) => {
    const counts = sentences(text).map(alliterativeWords);
    return counts.every((count, index) => count > (counts[index - 1] ?? -1));
  },
};

/** Words that begin with the same letter as the one before or behind them. */
function alliterativeWords(sentence: string): number {
  const firsts = splitWords(sentence.toLowerCase()).map((word) =>
    firstCharacter(word.replace(/^[!-/:-@[-`{-~ ]+/u, ""))
  )
    .filter((letter) => letter !== "");
  let count = 0;
  let inRun = false;
  for (const [index, letter] of firsts.entries()) {
    if (index === 0) continue;
    const same = letter === firsts[index - 1];
    if (same) count += inRun ? 1 : 2;
    inRun = same;
  }
  return count;
}
