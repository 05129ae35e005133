import { STOP_WORDS } from "../english/stop_words.ts";
import { codePoints, strip } from "../python/python_text.ts";
import type { Checkers, SplitSentences } from "./checker.ts";
import { plainWords } from "./count.ts";

/** Constraints on shares, and on sentences as many or as long as others. */
export const RATIO_CHECKERS: Checkers = {
  "ratio:stop_words": (text, given) => {
    const words = plainWords(text);
    if (words.length === 0) return false;
    const count = words.filter((word) => STOP_WORDS.has(word.toLowerCase())).length;
    return (count / words.length) * 100 <= given.number("percentage");
  },
  // Three characters each, not words.
  "ratio:overlap": (text, given) => {
    const [own, others] = [text, given.text("reference_text")].map(triples);
    if (own!.size === 0) return false;
    const share = ([...own!].filter((triple) => others!.has(triple)).length / own!.size) * 100;
    const wanted = given.number("percentage");
    return wanted - 2 <= share && share <= wanted + 2;
  },
  "ratio:sentence_type": (text, _given, sentences) =>
    sentencesWith(".", text, sentences) === 2 * sentencesWith("?", text, sentences),
  "ratio:sentence_balance": (text, _given, sentences) =>
    new Set([".", "?", "!"].map((mark) => sentencesWith(mark, text, sentences))).size === 1,
  "ratio:sentence_words": (text, _given, sentences) => {
    const lengths = sentences(text).map((sentence) => codePoints(strip(sentence)).length);
    return lengths.length === 3 && new Set(lengths).size === 1;
  },
};

function triples(text: string): Set<string> {
  const list = codePoints(text);
  return new Set(list.slice(2).map((_, index) => list.slice(index, index + 3).join("")));
}

function sentencesWith(mark: string, text: string, sentences: SplitSentences): number {
  return sentences(text).filter((sentence) => sentence.endsWith(mark)).length;
}
