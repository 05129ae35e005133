import { markAt, nextMark } from "./control_tokens.ts";
import { StringFinder } from "./string_finder.ts";

/** Encodes a text that is still being written, without ever encoding a part of it twice. */
export interface TokenStream {
  /** Adds text at the end. */
  append(text: string): void;
  /** Ids with which the encoding of every text begins that begins with the text so far. A live view. */
  readonly stable: readonly number[];
  /** Characters that are taken in and not encoded yet, because text to come may still change their tokens. */
  readonly pending: number;
  /** Exactly `encode` of the text so far. */
  complete(): number[];
  /** The state of the stream, for `reset`. */
  mark(): TokenMark;
  /** Forgets what was appended after a mark. Marks that were taken after it are void. */
  reset(mark: TokenMark): void;
  /** Goes on from where another stream of the same tokenizer has come to: the ids that it added, and its state. */
  resume(added: Iterable<number>, mark: TokenMark): void;
}

/** A point in a stream: plain data, which threads can hand to each other. */
export interface TokenMark {
  readonly tokens: number;
  readonly raw: string;
  readonly plain: string;
  readonly prepared: string;
  readonly begun: boolean;
  readonly first: boolean;
  readonly trimsNext: boolean;
}

/** Streams of a tokenizer, or the reason why texts cannot be encoded while they are written, as the end of a sentence. */
export type Streaming = { readonly open: OpenTokenStream } | { readonly refusal: string };

/** Opens a stream; `marked`: of a text with the marks of `ControlTokens`. */
export type OpenTokenStream = (options?: { readonly marked?: boolean | undefined }) => TokenStream;

/** A token with a text of its own, found in the text before anything else is done to it. */
export interface AddedToken {
  readonly id: number;
  readonly text: string;
  /** Takes the white space in front of it away. */
  readonly trimsBefore: boolean;
  /** Takes the white space behind it away. */
  readonly trimsAfter: boolean;
}

/** The parts of a tokenizer's work that a stream does piece by piece. */
export interface StreamRules {
  readonly addedTokens: readonly AddedToken[];
  /** True when `prepare` looks at neighbours: it then gets texts that begin where nothing composes backwards. */
  readonly composes: boolean;
  /** Normalises a part of a section (text between added tokens). `start`: the first one; `first`: of the first section. */
  prepare(text: string, at: { readonly start: boolean; readonly first: boolean }): string;
  /** Cuts prepared text; joined, the pieces are the text. Must give the same when it begins at one of its cuts. */
  pieces(text: string): readonly string[];
  /** So many pieces at the end may still change when text is added; those before never do. */
  readonly unstablePieces: number;
  /** The ids of pieces, each encoded on its own. */
  encode(pieces: readonly string[]): readonly number[];
}

/** Makes streams that follow the rules of one tokenizer. */
export function tokenStreams(rules: StreamRules): OpenTokenStream {
  const finder = new StringFinder(rules.addedTokens.map((token) => [token.text, token]));
  const trimsBefore = rules.addedTokens.some((token) => token.trimsBefore);
  return ({ marked = false } = {}) => new PieceStream(rules, { finder, trimsBefore, marked });
}

interface StreamOptions {
  readonly finder: StringFinder<AddedToken>;
  /** Some added token takes the white space in front of it away. */
  readonly trimsBefore: boolean;
  readonly marked: boolean;
}

/** Text that gives no stable piece is cut again only when it has doubled: a piece of any length costs linear time. */
const ALWAYS_CUT_LENGTH = 1024;

/**
 * Text goes through four stages, each of which holds back what text to come could still change: the search for added
 * tokens (a beginning of one at the end), normalisation (the last character and its marks), pieces (the last ones).
 */
class PieceStream implements TokenStream {
  readonly #rules: StreamRules;
  readonly #options: StreamOptions;
  readonly #ids: number[] = [];
  /** May begin an added token. */
  #raw = "";
  /** Plain text of the running section that is not normalised yet. */
  #plain = "";
  /** Normalised text that is not encoded yet. */
  #prepared = "";
  /** Length of `#prepared` at which it is cut again. */
  #cutLength = 0;
  /** The running section has given text to `prepare`. */
  #begun = false;
  /** No added token has come yet. */
  #first = true;
  /** The last added token takes the white space behind it away, and nothing else has come since. */
  #trimsNext = false;

  constructor(rules: StreamRules, options: StreamOptions) {
    this.#rules = rules;
    this.#options = options;
  }

  get stable(): readonly number[] {
    return this.#ids;
  }

  get pending(): number {
    return this.#raw.length + this.#plain.length + this.#prepared.length;
  }

  append(text: string): void {
    if (text === "") return;
    this.#raw += text;
    this.#findTokens(false);
    this.#advance(false);
  }

  complete(): number[] {
    const mark = this.mark();
    this.#findTokens(true);
    this.#advance(true);
    const ids = [...this.#ids];
    this.reset(mark);
    return ids;
  }

  mark(): TokenMark {
    return {
      tokens: this.#ids.length,
      raw: this.#raw,
      plain: this.#plain,
      prepared: this.#prepared,
      begun: this.#begun,
      first: this.#first,
      trimsNext: this.#trimsNext,
    };
  }

  reset(mark: TokenMark): void {
    this.#ids.length = mark.tokens;
    this.#setState(mark);
  }

  resume(added: Iterable<number>, mark: TokenMark): void {
    for (const id of added) this.#ids.push(id);
    this.#setState(mark);
  }

  #setState(mark: TokenMark): void {
    this.#raw = mark.raw;
    this.#plain = mark.plain;
    this.#prepared = mark.prepared;
    this.#cutLength = 0;
    this.#begun = mark.begun;
    this.#first = mark.first;
    this.#trimsNext = mark.trimsNext;
  }

  #findTokens(atEnd: boolean): void {
    const { finder, marked } = this.#options;
    const raw = this.#raw;
    const end = raw.length;
    let from = 0;
    let at = 0;
    let markPlace = marked ? nextMark(raw, 0) : end;
    while (at < end) {
      if (at > markPlace) markPlace = nextMark(raw, at);
      if (at < markPlace) {
        at = Math.min(markPlace, finder.next(raw, at));
        if (at === end) break;
      }
      const mark = at === markPlace ? markAt(raw, at) : undefined;
      if (mark !== undefined) {
        // What follows a break goes with it.
        const whole = mark.says === "literal" ? mark.length : mark.length + 1;
        if (at + whole > end && !atEnd) break;
        if (mark.says === "undecided") at++;
        else {
          this.#addPlain(raw.slice(from, mark.says === "literal" ? at + 1 : at));
          from = at + mark.length;
          at = mark.says === "break" && markAt(raw, from) === undefined ? from + 1 : from;
        }
        continue;
      }
      const found = finder.at(raw, at, atEnd);
      if (found === "undecided") break;
      if (found === undefined) at++;
      else {
        this.#addPlain(raw.slice(from, at));
        this.#addToken(found);
        from = at += found.text.length;
      }
    }
    this.#addPlain(raw.slice(from, at));
    this.#raw = raw.slice(at);
  }

  #addPlain(text: string): void {
    const kept = this.#trimsNext ? text.trimStart() : text;
    if (kept === "") return;
    this.#trimsNext = false;
    this.#plain += kept;
  }

  #addToken(token: AddedToken): void {
    if (token.trimsBefore) this.#plain = this.#plain.trimEnd();
    this.#advance(true);
    this.#ids.push(token.id);
    this.#begun = false;
    this.#first = false;
    this.#trimsNext = token.trimsAfter;
  }

  /** Takes plain text as far through the stages as is safe; all of it at the end of a section. */
  #advance(atEnd: boolean): void {
    const ready = atEnd ? this.#plain.length : this.#readyPlain();
    if (ready > 0) {
      const text = this.#plain.slice(0, ready);
      this.#prepared += this.#rules.prepare(text, { start: !this.#begun, first: this.#first });
      this.#plain = this.#plain.slice(ready);
      this.#begun = true;
    }
    if (this.#prepared === "" || (!atEnd && this.#prepared.length < this.#cutLength)) return;
    const pieces = this.#rules.pieces(this.#prepared);
    const done = atEnd ? pieces.length : pieces.length - this.#rules.unstablePieces;
    this.#cutLength = done <= 0 && this.#prepared.length > ALWAYS_CUT_LENGTH ? 2 * this.#prepared.length : 0;
    if (done <= 0) return;
    const stable = pieces.slice(0, done);
    for (const id of this.#rules.encode(stable)) this.#ids.push(id);
    this.#prepared = this.#prepared.slice(stable.reduce((length, piece) => length + piece.length, 0));
  }

  /** Characters of the plain text whose normal form nothing can change any more. */
  #readyPlain(): number {
    const text = this.#options.trimsBefore ? this.#plain.trimEnd() : this.#plain;
    let end = text.length;
    if (end > 0 && isHighSurrogate(text.charCodeAt(end - 1))) end--;
    if (!this.#rules.composes) return end;
    // What begins at a character that composes with nothing before it is normalised on its own.
    while (end > 0) {
      end--;
      if (end > 0 && isLowSurrogate(text.charCodeAt(end)) && isHighSurrogate(text.charCodeAt(end - 1))) end--;
      if (beginsAnew(text.codePointAt(end)!)) return end;
    }
    return 0;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

const MARK = /^\p{M}/u;

/**
 * True for characters that no normal form joins with what stands before them. Besides marks, the second and third
 * letters of Hangul syllables and three vowels of Kirat Rai do join; so do characters that decompose into such.
 */
function beginsAnew(codePoint: number): boolean {
  if (codePoint < 0x300) return true;
  const decomposed = String.fromCodePoint(codePoint).normalize("NFKD");
  const leader = decomposed.codePointAt(0)!;
  const joins = MARK.test(decomposed) || (leader >= 0x1160 && leader <= 0x11ff) ||
    (leader >= 0x16d60 && leader <= 0x16d6f);
  return !joins;
}
