import { atOnce, type Turns } from "../../base/turns.ts";
import { StringFinder } from "./string_finder.ts";

/**
 * Marks in a text that was written by somebody: `\ufdd0\ufdd2` says that no added token begins at the next character
 * or goes on behind it, `\ufdd0\ufdd1` stands for a `\ufdd0` of the text's own. U+FDD0 is no character of any script.
 */
const MARK = "\ufdd0";
const LITERAL = "\ufdd1";
const BREAK = "\ufdd2";

/** Characters that are read in a turn. */
export const TURN_LENGTH = 64 * 1024;
/** Places at which a control token may begin that are looked at in a turn. */
const TURN_PLACES = 4 * 1024;

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
    return atOnce(this.markInTurns(text, growing));
  }

  /** `mark` for a long text. */
  markInTurns(text: string, growing = false): Turns<string> {
    return this.#cut(text, growing, {
      cutAt: (place) => place,
      joint: MARK + BREAK,
      part: (part) => part.replaceAll(MARK, MARK + LITERAL),
    });
  }

  /** A text for an engine that tokenises it itself: a space behind the first character of each of its control tokens. */
  neutralise(text: string, growing = false): string {
    return atOnce(this.neutraliseInTurns(text, growing));
  }

  /** `neutralise` for a long text. */
  neutraliseInTurns(text: string, growing = false): Turns<string> {
    return this.#cut(text, growing, {
      cutAt: (place) => place + String.fromCodePoint(text.codePointAt(place)!).length,
      joint: " ",
      part: (part) => part,
    });
  }

  /** The text with joints at the places where a control token begins or goes on, as far as these are certain. */
  *#cut(text: string, growing: boolean, { cutAt, joint, part }: CutOptions): Turns<string> {
    let cut = "";
    let from = 0;
    /** Whether a joint goes there is known when the next place is. */
    let next: number | undefined;
    const go = (to: number) => {
      if (to <= from) return;
      cut += part(text.slice(from, to));
      from = to;
    };
    const join = (end: number) => {
      if (next === undefined || next >= end) return;
      go(next);
      cut += joint;
      next = undefined;
    };
    const { starts, end: certain } = this.#starts(text, growing);
    const found = (place: number) => {
      join(Infinity);
      next = cutAt(place);
    };
    let end = certain;
    let places = 0;
    for (let begin = 0; begin < end; begin += TURN_LENGTH) {
      if (begin > 0) yield;
      const stop = Math.min(begin + TURN_LENGTH, end);
      // One character more, with which a token may go on.
      const slice = text.slice(begin, stop + 1);
      for (let at = 0; (at = begin + this.#tokens.next(slice, at)) < stop; at = at + 1 - begin) {
        if (++places % TURN_PLACES === 0) yield;
        const token = this.#tokens.at(text, at, false);
        if (token === undefined) continue;
        if (token === "undecided" && growing) {
          end = at;
          break;
        }
        while (starts.length > 0 && starts[0]! < at) found(starts.shift()!);
        if (starts[0] === at) starts.shift();
        found(at);
      }
      while (starts.length > 0 && starts[0]! < Math.min(stop, end)) found(starts.shift()!);
      go(Math.min(stop, end, next ?? stop));
    }
    join(end);
    go(end);
    return cut;
  }

  /** Where the text goes on with a token that stands in front of it; white space may be taken away by a template. */
  #starts(text: string, growing: boolean): { readonly starts: number[]; readonly end: number } {
    const starts: number[] = [];
    for (const start of new Set([0, text.length - text.trimStart().length])) {
      const tail = this.#tails.at(text, start, !growing);
      if (tail === "undecided") return { starts, end: start };
      if (tail !== undefined) starts.push(start);
    }
    return { starts, end: text.length };
  }
}

/** What is done at the places of control tokens. */
interface CutOptions {
  readonly cutAt: (place: number) => number;
  readonly joint: string;
  /** What becomes of the text between two joints. */
  readonly part: (part: string) => string;
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

/** True when `text` is `marked` as it was. */
export function* isUnmarked(marked: string, text: string): Turns<boolean> {
  let at = 0;
  let end = 0;
  for (let from = 0; from < marked.length; from = end) {
    if (from > 0) yield;
    end = from + TURN_LENGTH;
    // Not within a mark.
    if (marked[end - 1] === MARK) end++;
    const part = unmarked(marked.slice(from, end));
    if (text.slice(at, at + part.length) !== part) return false;
    at += part.length;
  }
  return at === text.length;
}

/** A marked text for an `encode` that knows no marks: a space keeps what a mark would keep apart. */
export function withGaps(text: string): string {
  return text.replaceAll(new RegExp(`${MARK}${BREAK}([^])`, "gu"), "$1 ").replaceAll(MARK + LITERAL, MARK);
}
