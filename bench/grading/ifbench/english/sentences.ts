import { SPACE, WORD } from "../python/python_text.ts";
import type { KnownWords } from "./known_words.ts";
import { ABBREVIATIONS, COLLOCATIONS, SENTENCE_STARTERS } from "./punkt_words.ts";

const INNER = `[)";}\\]*:@'({\\[!?]`;
const RUN = "(?:-{2,}|\\.{2,}|(?:\\.[" + SPACE + "]){2,}\\.)";
const TOKEN = new RegExp(
  `${RUN}|(?=[^("\`{\\[:;&#*@)}\\]\\-,])[^${SPACE}]+?(?=[${SPACE}]|$|${INNER}|${RUN}|,(?=$|[${SPACE}]|${INNER}|${RUN}))|[^${SPACE}]`,
  "gu",
);
const END = new RegExp(`[.?!](?=(${INNER}|[${SPACE}]+(?<next>[^${SPACE}]+)))`, "gu");
const CLOSING = new RegExp(`^["')\\]}]+?(?:[${SPACE}]+|(?=--)|(?=\\n|$))`, "u");
const TRAILING_SPACE = new RegExp(`[${SPACE}]+$`, "u");
const NUMBER = /^-?[.,]?\p{Nd}[\p{Nd},.-]*\.?$/u;
const INITIAL = new RegExp(`^(?![\\p{Nd}])[${WORD}]\\.$`, "u");
const UPPER = /^\p{Uppercase}/u;
const LOWER = /^\p{Lowercase}/u;

/** Sentences of a text as Punkt's English model (NLTK's `sent_tokenize`) finds them. */
export function sentencesOf(text: string, known: KnownWords): string[] {
  const found: { from: number; readonly to: number }[] = [];
  let from = 0;
  for (const { end, after, context, next } of possibleEnds(text)) {
    if (!endsWithin(context, known)) continue;
    found.push({ from, to: end });
    // The next one begins behind blanks, or with the mark that follows.
    from = next === undefined ? end : end + after.length - next.length;
  }
  found.push({ from, to: text.replace(TRAILING_SPACE, "").length });
  return withClosingMarks(text, found);
}

interface PossibleEnd {
  /** Behind the mark. */
  readonly end: number;
  /** Of the text behind it: blanks and the next word, or a mark. */
  readonly after: string;
  readonly next: string | undefined;
  /** The word that ends here, the mark, and what follows. */
  readonly context: string;
}

/** Marks that may end a sentence, the last one of those that one word has. */
function* possibleEnds(text: string): Generator<PossibleEnd> {
  let [from, to] = [0, 0];
  let before: PossibleEnd | undefined;
  for (const match of text.matchAll(END)) {
    const { index } = match;
    const space = Math.max(
      ...[" ", "\t", "\n", "\r", "\v", "\f"].map((char) => text.slice(to, index).lastIndexOf(char)),
    );
    const start = space > 0 ? to + space + 1 : from;
    if (before !== undefined && to <= start) yield before;
    [from, to] = [start, index];
    const after = match[1] ?? "";
    before = {
      end: index + 1,
      after,
      next: match.groups?.["next"],
      context: text.slice(start, index) + match[0] + after,
    };
  }
  if (before !== undefined) yield before;
}

/** Marks that close quotes and brackets belong to the sentence before. */
function withClosingMarks(
  text: string,
  found: readonly { readonly from: number; readonly to: number }[],
): string[] {
  const sentences: string[] = [];
  let moved = 0;
  for (const [index, { from, to }] of found.entries()) {
    const start = from + moved;
    const next = found[index + 1];
    const closing = next === undefined ? undefined : CLOSING.exec(text.slice(next.from, next.to))?.[0];
    if (next !== undefined && closing !== undefined) {
      sentences.push(text.slice(start, next.from + closing.replace(TRAILING_SPACE, "").length));
      moved = closing.length;
      continue;
    }
    moved = 0;
    if (to > start) sentences.push(text.slice(start, to));
  }
  return sentences;
}

interface Token {
  readonly text: string;
  /** In small letters; `##number##` for a number. */
  readonly type: string;
  readonly abbreviation: boolean;
  readonly ellipsis: boolean;
  readonly ends: boolean;
}

/** True where a sentence ends at a token that is not the last one. */
function endsWithin(context: string, known: KnownWords): boolean {
  const tokens = context.split("\n").flatMap((line) => line.match(TOKEN) ?? []).map(tokenOf);
  return tokens.slice(0, -1).some((token, index) => endsBefore(token, tokens[index + 1]!, known));
}

function tokenOf(text: string): Token {
  const type = text.toLowerCase().replace(NUMBER, "##number##");
  const ellipsis = /^\.\.+$/u.test(text);
  const dotted = text.endsWith(".") && !text.endsWith("..") && text !== ".";
  const stem = text.slice(0, -1).toLowerCase();
  const abbreviation = dotted && (ABBREVIATIONS.has(stem) || ABBREVIATIONS.has(stem.split("-").at(-1)!));
  const ends = text === "." || text === "?" || text === "!" || (dotted && !abbreviation);
  return { text, type, abbreviation, ellipsis, ends };
}

/** Punkt's second look at a token that may end a sentence, by what follows it. */
function endsBefore(token: Token, next: Token, known: KnownWords): boolean {
  if (!token.text.endsWith(".")) return token.ends;
  const type = withoutDot(token.type);
  const nextType = next.ends ? withoutDot(next.type) : next.type;
  if (COLLOCATIONS.has(`${type} ${nextType}`)) return false;
  const initial = INITIAL.test(token.text);
  if ((token.abbreviation || token.ellipsis) && !initial) {
    if (!UPPER.test(next.text)) return false;
    return SENTENCE_STARTERS.has(nextType) || known(`begins ${nextType}`);
  }
  if (!token.ends || (!initial && type !== "##number##")) return token.ends;
  if ([";", ":", ",", ".", "!", "?"].includes(next.text)) return false;
  if (LOWER.test(next.text)) return !known(`inner ${nextType}`);
  if (initial && UPPER.test(next.text) && !known(`begins ${nextType}`)) return known(`small ${nextType}`);
  return true;
}

function withoutDot(type: string): string {
  return type.length > 1 && type.endsWith(".") ? type.slice(0, -1) : type;
}
