import { wordTokens } from "../english/word_tokens.ts";
import {
  codePoints,
  firstCharacter,
  hasSpace,
  splitWords,
  strip,
  stripMarks,
  withoutMarks,
} from "../python/python_text.ts";
import type { Checkers } from "./checker.ts";

const PAIRS: Readonly<Record<string, string>> = { ")": "(", "]": "[", "}": "{" };
/** Emoji of one code point. */
const EMOJI = /^(?=\p{Emoji})[^0-9#*\u{1f1e6}-\u{1f1ff}]$/u;

/** Constraints on the form of a text. */
export const FORMAT_CHECKERS: Checkers = {
  "format:parentheses": nestedParentheses,
  "format:quotes": nestedQuotes,
  "format:options": (text, given) => {
    const options = given.text("options");
    const separator = ["/", "or"].find((one) => options.includes(one)) ?? ",";
    const list = options.split(separator).map(strip);
    // Letters must be given as they are listed.
    if (/^[^\p{L}\p{N}_]*a[^\p{L}\p{N}_]*b[^\p{L}\p{N}_]*c/iu.test(options)) return list.includes(text);
    const stated = stripMarks(text).toLowerCase();
    return list.some((option) => stripMarks(option).toLowerCase() === stated);
  },
  "format:newline": (text) => {
    const plain = strip(withoutMarks(text));
    return plain.split("\n").filter((line) => line !== "").length === splitWords(plain).length;
  },
  "format:emoji": (text, _given, sentences) => {
    const list = sentences(text).map((sentence) => codePoints(strip(withoutMarks(sentence))));
    return list.every((sentence, index) => {
      if (sentence.length === 0) return false;
      if (sentence.slice(-2).some((char) => EMOJI.test(char))) return true;
      // Or the next sentence begins with it.
      return EMOJI.test(list[index + 1]?.[0] ?? "");
    });
  },
  "format:line_indent": (text) => {
    const indents = withoutSomeEmptyLines(text.split("\n")).map((line) => /^ */u.exec(line)![0].length);
    return indents.every((indent, index) => index === 0 || indent > indents[index - 1]!);
  },
  "format:quote_unquote": (text) => {
    const plain = splitWords(text.replaceAll(`'"'`, "")).join("");
    return !plain.includes('""') && !/"[!#-/0-9:-@[-`{-~]*$/u.test(plain);
  },
  "format:list": (text, given) => text.split(given.text("sep")).length > 2,
  "format:thesis": (text) => {
    const start = ["<i>", "<em>"].map((tag) => text.indexOf(tag)).find((at) => at >= 0);
    const rest = start === undefined ? "" : text.slice(start);
    const end = ["</i>", "</em>"].map((tag) => rest.indexOf(tag)).find((at) => at >= 0);
    return end !== undefined && strip(rest.slice(3, end)) !== "" && strip(rest.slice(end + 4)) !== "";
  },
  "format:sub-bullets": (text) => text.split("*").slice(1).every((bullet) => bullet.includes("-")),
  "format:no_bullets_bullets": (text, _given, sentences) => {
    let [before, bullets, ended] = [0, 0, false];
    for (const line of text.split("\n").map(strip)) {
      if (line.startsWith("*")) {
        if (before < 2) return false;
        ended = true;
        bullets++;
      } else if (ended) return false;
      else {
        const count = sentences(line).length;
        before += count;
        // An empty line ends the sentences too.
        ended = count === 0;
      }
    }
    return bullets >= 2;
  },
  "format:title_case": (text, _given, sentences) =>
    sentences(text).flatMap(wordTokens).every((word) => {
      const [first, rest] = [firstCharacter(word), word.slice(firstCharacter(word).length)];
      if (!/^\p{L}$/u.test(first) || !isCased(first, "Lowercase")) return true;
      return rest !== "" && !isCased(rest, "Lowercase") && !isCased(rest, "Uppercase");
    }),
  "format:output_template": (text) =>
    ["My Answer:", "My Conclusion:", "Future Outlook:"].every((part) => text.includes(part)),
  "format:no_whitespace": (text) => !hasSpace(text),
};

/** Five levels, of which at least the innermost one is closed. */
function nestedParentheses(text: string): boolean {
  let open: string[] = [];
  let deepest = 0;
  for (const char of text) {
    if ("([{".includes(char)) {
      open.push(char);
      deepest = Math.max(deepest, open.length);
    } else if (PAIRS[char] !== undefined) {
      if (open.at(-1) === PAIRS[char]) {
        open.pop();
        if (deepest >= 5) return true;
      } else [open, deepest] = [[], 0];
    }
  }
  return false;
}

/** Three levels of " and ' in turn, all of them closed. */
function nestedQuotes(text: string): boolean {
  const open: string[] = [];
  let deepest = 0;
  for (const char of text) {
    if (char !== '"' && char !== "'") continue;
    if (open.at(-1) === char) {
      open.pop();
      if (deepest - open.length >= 3) return true;
    } else deepest = Math.max(deepest, open.push(char));
  }
  return false;
}

/** As IFBench leaves empty lines out: of several in a row every other one stays, and the first of their kind goes. */
function withoutSomeEmptyLines(lines: readonly string[]): string[] {
  const left = [...lines];
  for (let index = 0; index < left.length; index++) {
    const line = left[index]!;
    if (strip(line) === "") left.splice(left.indexOf(line), 1);
  }
  return left;
}

/** Python's `islower` and `isupper`. */
function isCased(text: string, kind: "Lowercase" | "Uppercase"): boolean {
  const other = kind === "Lowercase" ? /[\p{Uppercase}\p{Lt}]/u : /[\p{Lowercase}\p{Lt}]/u;
  return (kind === "Lowercase" ? /\p{Lowercase}/u : /\p{Uppercase}/u).test(text) && !other.test(text);
}
