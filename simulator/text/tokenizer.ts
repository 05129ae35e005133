import type { ChatMessage, RenderOptions } from "../../ml/tokenizers/chat_message.ts";
import { ControlTokens, nextMark } from "../../ml/tokenizers/control_tokens.ts";
import type { ModelControlTokens, ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import { type Streaming, tokenStreams } from "../../ml/tokenizers/token_stream.ts";
import { SPECIAL_TOKENS, TOKEN_TEXTS } from "./vocabulary.ts";

/** The name by which simulated servers tell that they speak the tokenizer of this file: neither a folder nor a Hub id. */
export const BUILTIN_TOKENIZER = "canopy:builtin";

const FIRST_TEXT = 256;
const FIRST_SPECIAL = FIRST_TEXT + TOKEN_TEXTS.length;
/** A sentence end with its newline; a word with the space before it; any other single character. */
const PIECE = /\.\n| ?[\p{L}\p{M}]+|[^\p{L}\p{M}]/gsu;
const SPECIAL = new RegExp(`(${SPECIAL_TOKENS.map((text) => text.replaceAll("|", "\\|")).join("|")})`);
const CONTROL_TOKENS = new ControlTokens(SPECIAL_TOKENS);
const MAX_CACHED_PIECES = 50_000;

/**
 * A small deterministic tokenizer that needs no files: English words, pieces of words, and UTF-8 bytes for the rest.
 * `decode(encode(text))` is `text`; `encode(decode(ids))` is `ids` for all that the simulator generates with it.
 */
export class BuiltinTokenizer implements ModelTokenizer {
  readonly vocabSize: number = FIRST_SPECIAL + SPECIAL_TOKENS.length;
  readonly hasChatTemplate = true;
  readonly textPrefix: readonly number[] = [];
  #ids = new Map(TOKEN_TEXTS.map((text, index) => [text, FIRST_TEXT + index]));
  #longest = Math.max(...TOKEN_TEXTS.map((text) => text.length));
  #pieces = new Map<string, readonly number[]>();
  #utf8 = new TextEncoder();
  readonly control: ModelControlTokens = { all: CONTROL_TOKENS, special: CONTROL_TOKENS };
  readonly #open = tokenStreams({
    addedTokens: SPECIAL_TOKENS.map((text, index) => ({
      id: FIRST_SPECIAL + index,
      text,
      trimsBefore: false,
      trimsAfter: false,
    })),
    composes: false,
    prepare: (text) => text,
    pieces: (text) => text.match(PIECE) ?? [],
    unstablePieces: 2,
    encode: (pieces) => pieces.flatMap((piece) => this.#encodePiece(piece)),
  });
  readonly streaming: Streaming = { open: this.#open };

  encode(text: string, { marked = false }: { readonly marked?: boolean | undefined } = {}): number[] {
    if (marked && nextMark(text, 0) < text.length) {
      const stream = this.#open({ marked });
      stream.append(text);
      return stream.complete();
    }
    const ids: number[] = [];
    for (const part of text.split(SPECIAL)) {
      const special = SPECIAL_TOKENS.indexOf(part);
      if (special >= 0) ids.push(FIRST_SPECIAL + special);
      else {for (const [piece] of part.matchAll(PIECE)) {
          for (const id of this.#encodePiece(piece)) ids.push(id);
        }}
    }
    return ids;
  }

  decode(ids: readonly number[], options: { skipSpecialTokens?: boolean } = {}): string {
    let text = "";
    let bytes: number[] = [];
    for (const id of ids) {
      if (id < FIRST_TEXT) {
        bytes.push(id);
        continue;
      }
      if (bytes.length > 0) text += utf8Text(bytes);
      bytes = [];
      if (id < FIRST_SPECIAL) text += TOKEN_TEXTS[id - FIRST_TEXT]!;
      else if (options.skipSpecialTokens !== true) text += SPECIAL_TOKENS[id - FIRST_SPECIAL] ?? "";
    }
    return bytes.length > 0 ? text + utf8Text(bytes) : text;
  }

  renderChat(
    messages: readonly ChatMessage[],
    options: RenderOptions = {},
  ): string {
    let text = "";
    const tools = options.templateArguments?.["tools"];
    if (Array.isArray(tools)) {
      text += `<|im_start|>system\n# Tools\n${
        tools.map((tool) => JSON.stringify(tool)).join("\n")
      }<|im_end|>\n`;
    }
    for (const message of messages) {
      const content = typeof message.content === "string" ? message.content : "";
      text += `<|im_start|>${message.role}\n${content}<|im_end|>\n`;
    }
    text += "<|im_start|>assistant\n";
    return options.templateArguments?.["enable_thinking"] === false ? text + "<think>\n\n</think>\n\n" : text;
  }

  #encodePiece(piece: string): readonly number[] {
    const known = this.#pieces.get(piece);
    if (known !== undefined) return known;
    const ids: number[] = [];
    let at = 0;
    while (at < piece.length) {
      let length = Math.min(this.#longest, piece.length - at);
      while (length > 1 && !this.#ids.has(piece.slice(at, at + length))) length--;
      if (length > 1) ids.push(this.#ids.get(piece.slice(at, at + length))!);
      else {
        const character = String.fromCodePoint(piece.codePointAt(at)!);
        ids.push(...this.#utf8.encode(character));
        length = character.length;
      }
      at += length;
    }
    if (this.#pieces.size >= MAX_CACHED_PIECES) this.#pieces.clear();
    this.#pieces.set(piece, ids);
    return ids;
  }
}

/** A tokenizer with the special ids that the simulator needs to speak through it. */
export interface Speech {
  readonly tokenizer: ModelTokenizer;
  /** Ends an answer (`<|im_end|>`). */
  readonly endId: number;
  /** Ends an answer as well, and is reported as stop reason (`<|endoftext|>`). */
  readonly secondEndId: number;
  /** Whole words with a leading space. */
  readonly wordIds: readonly number[];
  /** Comma and full stop. */
  readonly punctuationIds: readonly number[];
  /** The token after which an answer may end. */
  readonly sentenceEndId: number;
  /** First ids of characters that take several tokens, and which id follows which. */
  readonly characterIds: readonly number[];
  readonly nextOfCharacter: ReadonlyMap<number, number>;
  /** The text of one token; U+FFFD where it is no complete character; special tokens are empty. */
  textOf(id: number): string;
}

const speeches = new WeakMap<ModelTokenizer, Speech>();
const MAX_WORD_CANDIDATES = 8000;
/** Enough for a varied text, and few enough to leave out the pieces at the end of the built-in vocabulary. */
const MAX_WORDS = 500;

/** Looks at a tokenizer once and remembers what it found. */
export function speechOf(tokenizer: ModelTokenizer): Speech {
  let speech = speeches.get(tokenizer);
  if (speech === undefined) {
    speech = explore(tokenizer);
    speeches.set(tokenizer, speech);
  }
  return speech;
}

function explore(tokenizer: ModelTokenizer): Speech {
  const single = (text: string): number | undefined => {
    const ids = tokenizer.encode(text);
    return ids.length === 1 ? ids[0] : undefined;
  };
  const texts = new Map<number, string>();
  const textOf = (id: number): string => {
    let text = texts.get(id);
    if (text === undefined) {
      text = tokenizer.decode([id], { skipSpecialTokens: true });
      texts.set(id, text);
    }
    return text;
  };
  const wordIds: number[] = [];
  for (
    let id = 0;
    id < Math.min(tokenizer.vocabSize, MAX_WORD_CANDIDATES) && wordIds.length < MAX_WORDS;
    id++
  ) {
    if (/^ [a-z]{2,}$/.test(textOf(id)) && single(textOf(id)) === id) wordIds.push(id);
  }
  const endOfText = single("<|endoftext|>");
  const endId = single("<|im_end|>") ?? endOfText ?? tokenizer.vocabSize - 1;
  const fullStop = single(".") ?? tokenizer.encode(".")[0] ?? 0;
  if (wordIds.length === 0) wordIds.push(fullStop);
  const characterIds: number[] = [];
  const nextOfCharacter = new Map<number, number>();
  for (const ids of ["\u00e9", "\u{1f600}"].map((character) => tokenizer.encode(character))) {
    if (ids.length < 2 || ids.some((id) => nextOfCharacter.has(id) || characterIds.includes(id))) continue;
    characterIds.push(ids[0]!);
    for (let i = 1; i < ids.length; i++) nextOfCharacter.set(ids[i - 1]!, ids[i]!);
  }
  return {
    tokenizer,
    endId,
    secondEndId: endOfText ?? endId,
    wordIds,
    punctuationIds: [single(",") ?? fullStop, fullStop],
    sentenceEndId: single(".\n") ?? single("\n") ?? fullStop,
    characterIds,
    nextOfCharacter,
    textOf,
  };
}

const decoder = new TextDecoder();

function utf8Text(bytes: readonly number[]): string {
  return decoder.decode(Uint8Array.from(bytes));
}

/** Turns a growing list of ids into text, holding back bytes of unfinished characters. */
export class BuiltinDetokenizer {
  readonly #speech: Speech;
  readonly #skipSpecialTokens: boolean;
  #pending: number[] = [];

  constructor(speech: Speech, skipSpecialTokens = true) {
    this.#speech = speech;
    this.#skipSpecialTokens = skipSpecialTokens;
  }

  /** The text that this token completes. */
  push(id: number): string {
    if (this.#pending.length === 0 && this.#skipSpecialTokens) {
      const text = this.#speech.textOf(id);
      if (!text.includes("\ufffd")) return text;
    }
    this.#pending.push(id);
    const text = this.#decode();
    if (text.endsWith("\ufffd") && this.#pending.length < 4) return "";
    this.#pending = [];
    return text;
  }

  /** Text that is still held back. */
  flush(): string {
    const text = this.#pending.length === 0 ? "" : this.#decode();
    this.#pending = [];
    return text;
  }

  #decode(): string {
    return this.#speech.tokenizer.decode(this.#pending, { skipSpecialTokens: this.#skipSpecialTokens });
  }
}
