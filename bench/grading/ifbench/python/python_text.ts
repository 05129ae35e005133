/** What Python's `str.isspace`, `split`, `strip` and `\s` take for white space; a class of a regular expression. */
export const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
/** What Python's `\w` matches; a class of a regular expression. */
export const WORD = "\\p{L}\\p{N}_";
/** Python's `\b`. */
export const WORD_EDGE = `(?:(?<![${WORD}])(?=[${WORD}])|(?<=[${WORD}])(?![${WORD}]))`;

const SPACES = new RegExp(`[${SPACE}]+`, "u");
const OUTER_SPACES = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "gu");
const ANY_SPACE = new RegExp(`[${SPACE}]`, "u");
/** Python's `string.punctuation`: the 32 marks of ASCII. */
const PUNCTUATION = "!-/:-@[-`{-~";
const MARKS = new RegExp(`[${PUNCTUATION}]`, "gu");
const OUTER_MARKS = new RegExp(`^[${PUNCTUATION} ]+|[${PUNCTUATION} ]+$`, "gu");

/** Python's `text.split()`. */
export function splitWords(text: string): string[] {
  return text.split(SPACES).filter((word) => word !== "");
}

/** Python's `text.strip()`. */
export function strip(text: string): string {
  return text.replace(OUTER_SPACES, "");
}

/** True where a character is white space. */
export function hasSpace(text: string): boolean {
  return ANY_SPACE.test(text);
}

/** Without any mark of ASCII. */
export function withoutMarks(text: string): string {
  return text.replace(MARKS, "");
}

/** Without the marks of ASCII, and the blanks, at both ends. */
export function stripMarks(text: string): string {
  return text.replace(OUTER_MARKS, "");
}

/** Characters as Python counts them: code points. */
export function codePoints(text: string): string[] {
  return Array.from(text);
}

/** First character; empty for an empty text. */
export function firstCharacter(text: string): string {
  const point = text.codePointAt(0);
  return point === undefined ? "" : String.fromCodePoint(point);
}

/** A pattern that matches the text itself. */
export function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&");
}

/** Without accents: NFKD, and of that the characters of ASCII. */
export function asciiText(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.normalize("NFKD").replace(/[^\x00-\x7f]/gu, "");
}
