import type { Json, JsonObject } from "../../base/json.ts";

/** What the server needs of a model's tokenizer; `ModelTokenizer` of the router has it. */
export interface TextTokenizer {
  readonly vocabSize: number;
  readonly hasChatTemplate: boolean;
  encode(text: string): number[];
  decode(ids: readonly number[], options?: { skipSpecialTokens?: boolean }): string;
  renderChat(
    messages: readonly TemplateMessage[],
    options?: { templateArguments?: Record<string, Json> },
  ): string;
}

/** A message as chat templates read it. */
export type TemplateMessage = { role: string; content: Json } & JsonObject;

/** Tokens before the answer that its first tokens are read behind: some tokenizers drop a text's first space. */
const PROMPT_TOKENS = 5;
/** Longest run of tokens that make no whole character, which only a model of noise writes. */
const MAX_PENDING_TOKENS = 64;

/**
 * Turns a growing list of ids into text. A character whose last bytes are still to come is held back; all pieces and
 * `flush` together are the text of all ids.
 */
export class Detokenizer {
  readonly #tokenizer: TextTokenizer;
  readonly #options: { skipSpecialTokens: boolean };
  /** What new tokens are read behind, already shown, and its length as text. */
  #context: readonly number[];
  #contextLength: number;
  #pending: number[] = [];
  /** Of the pending tokens' text, how much is shown. */
  #shown = 0;

  constructor(tokenizer: TextTokenizer, promptIds: readonly number[], skipSpecialTokens: boolean) {
    this.#tokenizer = tokenizer;
    this.#options = { skipSpecialTokens };
    this.#context = promptIds.slice(-PROMPT_TOKENS);
    this.#contextLength = this.#decode(this.#context).length;
  }

  /** The text that this token completes. */
  push(id: number): string {
    this.#pending.push(id);
    const text = this.#text();
    // Of a character that is cut off at the end one replacement stands there; those before it are here to stay.
    const cut = text.endsWith("\ufffd");
    const piece = text.slice(this.#shown, cut ? -1 : undefined);
    this.#shown += piece.length;
    if (!cut || this.#pending.length >= MAX_PENDING_TOKENS) {
      const rest = text.slice(this.#shown);
      this.#context = this.#pending;
      this.#contextLength = this.#decode(this.#context).length;
      this.#pending = [];
      this.#shown = 0;
      return piece + rest;
    }
    return piece;
  }

  /** What is still held back. */
  flush(): string {
    const rest = this.#pending.length === 0 ? "" : this.#text().slice(this.#shown);
    this.#pending = [];
    this.#shown = 0;
    return rest;
  }

  #text(): string {
    return this.#decode([...this.#context, ...this.#pending]).slice(this.#contextLength);
  }

  #decode(ids: readonly number[]): string {
    return this.#tokenizer.decode(ids, this.#options);
  }
}
