import { StringFinder } from "./string_finder.ts";

/**
 * Marks in a text that was written by somebody: `\ufdd0\ufdd2` says that no added token begins at the next character
 * or goes on behind it, `\ufdd0\ufdd1` stands for a `\ufdd0` of the text's own. U+FDD0 is no character of any script.
 */
const MARK = "\ufdd0";
const LITERAL = "\ufdd1";
const BREAK = "\ufdd2";

/**
 * The strings that a model reads as control tokens, and what keeps texts of users and models from writing them.
 * A beginning of a text that is still being written is treated such that it stays the beginning of the whole.
 */
export class ControlTokens {
  readonly #tokens: StringFinder<true>;
  /** Ends of tokens, which would complete what stands in front of a text. */
  readonly #tails: StringFinder<true>;

  constructor(tokens: readonly string[]) {
    this.#tokens = new StringFinder(tokens.map((token) => [token, true]));
    const tails = tokens.flatMap((token) =>
      Array.from({ length: Math.max(0, token.length - 2) }, (_, index) => token.slice(index + 1))
    );
    this.#tails = new StringFinder(tails.map((tail) => [tail, true]));
  }

  /** A text with marks, for an `encode` that minds them: its control tokens are plain text there. */
  mark(text: string, growing = false): string {
    const { places, end } = this.#places(text, growing);
    return cutAt(text, [...places, end]).map((part) => part.replaceAll(MARK, MARK + LITERAL)).join(
      MARK + BREAK,
    );
  }

  /** A text for an engine that tokenises it itself: a space behind the first character of each of its control tokens. */
  neutralise(text: string, growing = false): string {
    const { places, end } = this.#places(text, growing);
    const cuts = places.map((place) => place + String.fromCodePoint(text.codePointAt(place)!).length);
    return cutAt(text, [...cuts.filter((cut) => cut < end), end]).join(" ");
  }

  /** The places where a control token begins or goes on; of a growing text up to where that is not certain yet. */
  #places(text: string, growing: boolean): { readonly places: readonly number[]; readonly end: number } {
    const places = new Set<number>();
    // A template may take the white space away.
    for (const start of [0, text.length - text.trimStart().length]) {
      const tail = this.#tails.at(text, start, !growing);
      if (tail === "undecided") return { places: [...places], end: start };
      if (tail !== undefined) places.add(start);
    }
    for (let at = this.#tokens.next(text, 0); at < text.length; at = this.#tokens.next(text, at + 1)) {
      const token = this.#tokens.at(text, at, false);
      if (token === "undecided" && growing) return { places: [...places], end: at };
      if (token !== undefined) places.add(at);
    }
    return { places: [...places].sort((a, b) => a - b), end: text.length };
  }
}

function cutAt(text: string, cuts: readonly number[]): string[] {
  return cuts.map((cut, index) => text.slice(cuts[index - 1] ?? 0, cut));
}

/** What stands at a place of a marked text: a mark, how long it is, and what it says. Undefined: no mark. */
export function markAt(
  text: string,
  at: number,
): { readonly length: number; readonly says: "literal" | "break" | "undecided" } | undefined {
  if (text[at] !== MARK) return undefined;
  const kind = text[at + 1];
  if (kind === undefined) return { length: 1, says: "undecided" };
  return kind === LITERAL
    ? { length: 2, says: "literal" }
    : kind === BREAK
    ? { length: 2, says: "break" }
    : undefined;
}

/** The first mark in a text; its length where there is none. */
export function nextMark(text: string, from: number): number {
  const at = text.indexOf(MARK, from);
  return at < 0 ? text.length : at;
}

/** A marked text as it was. */
export function unmarked(text: string): string {
  return text.replaceAll(MARK + BREAK, "").replaceAll(MARK + LITERAL, MARK);
}

/** A marked text for an `encode` that knows no marks: a space keeps what a mark would keep apart. */
export function withGaps(text: string): string {
  return text.replaceAll(new RegExp(`${MARK}${BREAK}([^])`, "gu"), "$1 ").replaceAll(MARK + LITERAL, MARK);
}
