import { literalPattern, type MatchSelect, pythonMatch, wordPattern } from "./python_text.ts";

/** What a filter takes out of an answer; undefined where it finds nothing. */
export type AnswerFilter = (text: string) => string | undefined;

/** The first or last match of a pattern. */
export function patternFilter(pattern: RegExp, select: MatchSelect): AnswerFilter {
  return (text) => pythonMatch(pattern, text, select);
}

/** The last letter in brackets; else the last option whose text is named; else the last letter behind a colon. */
export function choiceFilter(options: readonly string[]): AnswerFilter {
  const letterOf = (index: number) => String.fromCharCode(65 + index);
  const byText = new Map(options.map((option, index) => [plainText(option.trim()), `(${letterOf(index)})`]));
  // The longest first, so that an option which another one begins with does not hide it.
  const texts = options.map((option) => literalPattern(plainText(option.trim())))
    .sort((a, b) => [...b].length - [...a].length);
  const named = new RegExp(texts.join("|"), "gu");
  const behindColon = new RegExp(`:\\s*(${options.map((_, index) => letterOf(index)).join("|")})`, "gu");
  return (text) => {
    const letter = pythonMatch(/(\([A-Z]\))/gu, text, "last");
    if (letter) return letter;
    const option = pythonMatch(named, plainText(text), "last");
    if (option) return byText.get(option) ?? option;
    const last = pythonMatch(behindColon, text, "last");
    return last ? `(${last})` : undefined;
  };
}

/** Words of which the last one in a text counts, each standing for a value. */
export function wordFilter(valueOf: ReadonlyMap<string, string>): AnswerFilter {
  const pattern = wordPattern([...valueOf.keys()]);
  return (text) => {
    const found = pythonMatch(pattern, text.toLowerCase(), "last");
    return found === undefined ? undefined : valueOf.get(found);
  };
}

/** The words of a list in the order in which a text names each for the last time. */
export function sortedWordsFilter(words: readonly string[]): AnswerFilter {
  const pattern = wordPattern(words.map(literalPattern));
  return (text) => {
    const named = [...text.matchAll(pattern)].map(([word]) => word);
    return [...new Set(named.reverse())].reverse().join(" ");
  };
}

/** In lower case and without punctuation. */
function plainText(text: string): string {
  return text.toLowerCase().replaceAll(/\p{P}/gu, "");
}
