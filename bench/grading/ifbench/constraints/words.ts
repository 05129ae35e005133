import { syllablesOf } from "../english/syllables.ts";
import { wordTokens } from "../english/word_tokens.ts";
import {
  codePoints,
  firstCharacter,
  splitWords,
  strip,
  stripMarks,
  withoutMarks,
} from "../python/python_text.ts";
import type { Checkers } from "./checker.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz";
const PRIMES = new Set([
  ...[2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97],
]);
const CLUSTER = /[bcdfghjklmnpqrstvwxyz]{2}/u;

/** Constraints on single words and their neighbours. */
export const WORDS_CHECKERS: Checkers = {
  "words:alphabet": (text) => {
    const [first, ...others] = splitWords(withoutMarks(text));
    const start = first === undefined ? -1 : ALPHABET.indexOf(firstCharacter(first).toLowerCase());
    return start >= 0 &&
      others.every((word, index) =>
        firstCharacter(word.toLowerCase()) === ALPHABET[(start + index + 1) % ALPHABET.length]
      );
  },
  "words:vowel": (text) => {
    const paragraph = strip(text);
    return !paragraph.includes("\n") && new Set(paragraph.toLowerCase().match(/[aeiou]/gu)).size <= 3;
  },
  "words:consonants": (text) => splitWords(text.toLowerCase()).every((word) => CLUSTER.test(word)),
  "words:palindrome": (text) =>
    splitWords(withoutMarks(text).toLowerCase()).map(codePoints).filter((word) =>
      word.length >= 5 && word.join("") === word.toReversed().join("")
    ).length >= 10,
  "words:prime_lengths": (text) =>
    splitWords(withoutMarks(text)).every((word) => PRIMES.has(codePoints(word).length)),
  "words:repeats": (text, given) => {
    const most = given.number("small_n");
    const words = splitWords(withoutMarks(text.toLowerCase()));
    return [...Map.groupBy(words, (word) => word).values()].every(({ length }) => length <= most);
  },
  "words:odd_even_syllables": (text) => {
    const parities = splitWords(withoutMarks(text).toLowerCase()).map((word) => syllablesOf(word) % 2);
    return parities.every((parity, index) => index === 0 || parity !== parities[index - 1]);
  },
  "words:no_consecutive": (text) => {
    const firsts = splitWords(withoutMarks(text.toLowerCase())).map(firstCharacter);
    return firsts.every((letter, index) => index === 0 || letter !== firsts[index - 1]);
  },
  "words:last_first": (text, _given, sentences) => {
    const list = sentences(text);
    return list.slice(1).every((sentence, index) => {
      const last = splitWords(list[index]!.replace(/[!-/:-@[-`{-~ ]+$/u, "")).at(-1)?.toLowerCase();
      return last !== undefined &&
        last === splitWords(sentence.replace(/^[!-/:-@[-`{-~ ]+/u, ""))[0]?.toLowerCase();
    });
  },
  "words:paragraph_last_first": (text) =>
    text.split("\n").every((line) => {
      const words = splitWords(stripMarks(strip(line).toLowerCase()));
      return words[0] === words.at(-1);
    }),
  "words:keywords_specific_position": (text, given, sentences) => {
    const words = wordTokens(sentences(text)[given.position("n") - 1] ?? "")
      .filter((token) => /[\p{L}\p{N}]/u.test(token));
    return words[given.position("m") - 1]?.toLowerCase() === strip(given.text("keyword")).toLowerCase();
  },
  "words:words_position": (text, given, sentences) => {
    const words = sentences(text).flatMap(wordTokens);
    const keyword = strip(given.text("keyword")).toLowerCase();
    // A last token that is a mark, or several in the order of ASCII, is no word.
    const back = isMarks(words.at(-1) ?? "") ? 3 : 2;
    return words.length >= back &&
      [words[1], words.at(-back)].every((word) => word?.toLowerCase() === keyword);
  },
};

/** Python's `token in string.punctuation`. */
function isMarks(token: string): boolean {
  return "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~".includes(token);
}
