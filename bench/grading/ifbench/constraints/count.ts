import { wordTokens } from "../english/word_tokens.ts";
import {
  escaped,
  SPACE,
  splitWords,
  stripMarks,
  withoutMarks,
  WORD,
  WORD_EDGE,
} from "../python/python_text.ts";
import type { Checkers } from "./checker.ts";

const CONJUNCTIONS = new Set(["and", "but", "for", "nor", "or", "so", "yet"]);
const NAMES = new RegExp(
  `${WORD_EDGE}(?:Emma|Liam|Sophia|Jackson|Olivia|Noah|Ava|Lucas|Isabella|Mason|Mia|Ethan|Charlotte|Alexander|Amelia|` +
    "Benjamin|Harper|Leo|Zoe|Daniel|Chloe|Samuel|Lily|Matthew|Grace|Owen|Abigail|Gabriel|Ella|Jacob|Scarlett|Nathan|" +
    "Victoria|Elijah|Layla|Nicholas|Audrey|David|Hannah|Christopher|Penelope|Thomas|Nora|Andrew|Aria|Joseph|Claire|" +
    `Ryan|Stella|Jonathan)${WORD_EDGE}`,
  "gu",
);
const PRONOUNS = new Set(
  `i me we us you he him she her it they them my mine our ours your yours his hers its their theirs myself ourselves
  yourself yourselves himself herself itself themselves this that these those who whom whose which what whoever whomever
  whatever whichever anybody anyone anything everybody everyone everything nobody nothing somebody someone something each
  either neither both all some any none`.split(/\s+/u),
);
/** Times that keyword1 to keyword5 must occur. */
const KEYWORD_TIMES = [1, 2, 3, 5, 7];
const WORDS = new RegExp(`[${WORD}]+`, "gu");
/** Python's `isdigit`: raised and circled ones too. */
const OF_DIGITS =
  /^[\p{Nd}\u{b2}-\u{b3}\u{b9}\u{1369}-\u{1371}\u{19da}\u{2070}\u{2074}-\u{2079}\u{2080}-\u{2089}\u{2460}-\u{2468}\u{2474}-\u{247c}\u{2488}-\u{2490}\u{24ea}\u{24f5}-\u{24fd}\u{24ff}\u{2776}-\u{277e}\u{2780}-\u{2788}\u{278a}-\u{2792}\u{10a40}-\u{10a43}\u{10e60}-\u{10e68}\u{11052}-\u{1105a}\u{1f100}-\u{1f10a}]+$/u;

/** Words of letters, digits and underscores. */
export function plainWords(text: string): string[] {
  return text.match(WORDS) ?? [];
}

/** Constraints on how often something occurs. */
export const COUNT_CHECKERS: Checkers = {
  "count:word_count_range": (text, given) => {
    const count = plainWords(text).length;
    return given.number("min_words") <= count && count <= given.number("max_words");
  },
  "count:unique_word_count": (text, given) =>
    new Set(splitWords(text.toLowerCase()).map(stripMarks)).size >= given.number("N"),
  // As they are written: And and and are two.
  "count:conjunctions": (text, given) =>
    new Set(splitWords(text).filter((word) => CONJUNCTIONS.has(stripMarks(word).toLowerCase()))).size >=
      given.number("small_n"),
  "count:person_names": (text, given) => new Set(text.match(NAMES)).size >= given.number("N"),
  "count:numbers": (text, given) =>
    (withoutMarks(text).match(/\p{Nd}+/gu) ?? []).length === given.number("N"),
  "count:punctuation": (text) => {
    if (!["!?", "?!", "‽"].some((mark) => text.includes(mark))) return false;
    // The marks of the interrobang do not count for themselves.
    const rest = text.includes("?!") ? text.replace("?!", "") : text.replace("!?", "");
    return [".", ",", "!", "?", ";", ":"].every((mark) => rest.includes(mark));
  },
  "count:words_japanese": (text, given) => {
    const every = given.position("N");
    return splitWords(text).map(stripMarks).every((word, index) =>
      (index + 1) % every !== 0 || word === "" || OF_DIGITS.test(word) ||
      /[\u3040-\u30ff\u4e00-\u9fff]/u.test(word)
    );
  },
  "count:pronouns": (text, given, sentences) =>
    sentences(text.replaceAll("/", " ").toLowerCase()).flatMap(wordTokens).filter((word) =>
      PRONOUNS.has(word)
    )
      .length >= given.number("N"),
  "count:keywords_multiple": (text, given) =>
    KEYWORD_TIMES.every((times, index) => {
      const keyword = given.text(`keyword${index + 1}`).replace(
        new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "gu"),
        "",
      );
      const found = text.toLowerCase().match(new RegExp(escaped(keyword.toLowerCase()), "gu")) ?? [];
      return found.length === times;
    }),
};
