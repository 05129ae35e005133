/** Encodes a text that is still being written, without ever encoding a part of it twice. */
export interface TokenStream {
  /** Adds text at the end. */
  append(text: string): void;
  /** Ids with which the encoding of every text begins that begins with the text so far. A live view. */
  readonly stable: readonly number[];
  /** Exactly `encode` of the text so far. */
  complete(): number[];
  /** The state of the stream, for `reset`. */
  mark(): TokenMark;
  /** Forgets what was appended after a mark. Marks that were taken after it are void. */
  reset(mark: TokenMark): void;
}

/** A point in a stream. */
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
export type Streaming = { readonly open: () => TokenStream } | { readonly refusal: string };

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
export function tokenStreams(rules: StreamRules): () => TokenStream {
  const finder = new AddedTokenFinder(rules.addedTokens);
  return () => new PieceStream(rules, finder);
}

/**
 * Text goes through four stages, each of which holds back what text to come could still change: the search for added
 * tokens (a beginning of one at the end), normalisation (the last character and its marks), pieces (the last ones).
 */
class PieceStream implements TokenStream {
  readonly #rules: StreamRules;
  readonly #finder: AddedTokenFinder;
  readonly #ids: number[] = [];
  /** May begin an added token. */
  #raw = "";
  /** Plain text of the running section that is not normalised yet. */
  #plain = "";
  /** Normalised text that is not encoded yet. */
  #prepared = "";
  /** The running section has given text to `prepare`. */
  #begun = false;
  /** No added token has come yet. */
  #first = true;
  /** The last added token takes the white space behind it away, and nothing else has come since. */
  #trimsNext = false;

  constructor(rules: StreamRules, finder: AddedTokenFinder) {
    this.#rules = rules;
    this.#finder = finder;
  }

  get stable(): readonly number[] {
    return this.#ids;
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
    this.#raw = mark.raw;
    this.#plain = mark.plain;
    this.#prepared = mark.prepared;
    this.#begun = mark.begun;
    this.#first = mark.first;
    this.#trimsNext = mark.trimsNext;
  }

  #findTokens(atEnd: boolean): void {
    const raw = this.#raw;
    let from = 0;
    let at = 0;
    while (at < raw.length) {
      const found = this.#finder.at(raw, at, atEnd);
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
    if (this.#prepared === "") return;
    const pieces = this.#rules.pieces(this.#prepared);
    const done = atEnd ? pieces.length : pieces.length - this.#rules.unstablePieces;
    if (done <= 0) return;
    const stable = pieces.slice(0, done);
    for (const id of this.#rules.encode(stable)) this.#ids.push(id);
    this.#prepared = this.#prepared.slice(stable.reduce((length, piece) => length + piece.length, 0));
  }

  /** Characters of the plain text whose normal form nothing can change any more. */
  #readyPlain(): number {
    const text = this.#finder.trimsBefore ? this.#plain.trimEnd() : this.#plain;
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

interface TrieNode {
  token: AddedToken | undefined;
  readonly next: Map<string, TrieNode>;
}

/** Finds the longest added token at a place, as long as enough text is there to tell. */
class AddedTokenFinder {
  readonly trimsBefore: boolean;
  readonly #root: TrieNode = { token: undefined, next: new Map() };

  constructor(tokens: readonly AddedToken[]) {
    this.trimsBefore = tokens.some((token) => token.trimsBefore);
    for (const token of tokens) {
      let node = this.#root;
      for (let i = 0; i < token.text.length; i++) {
        let next = node.next.get(token.text[i]!);
        if (next === undefined) node.next.set(token.text[i]!, next = { token: undefined, next: new Map() });
        node = next;
      }
      node.token = token;
    }
  }

  at(text: string, from: number, atEnd: boolean): AddedToken | "undecided" | undefined {
    let node = this.#root;
    let found: AddedToken | undefined;
    for (let i = from; i < text.length; i++) {
      const next = node.next.get(text[i]!);
      if (next === undefined) return found;
      if (next.token !== undefined) found = next.token;
      node = next;
    }
    return atEnd || node.next.size === 0 ? found : "undecided";
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
