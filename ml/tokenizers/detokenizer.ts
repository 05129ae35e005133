import type { ModelTokenizer } from "./model_tokenizer.ts";

/** Tokens before the answer that its first tokens are read behind: some tokenizers drop a text's first space. */
const PROMPT_TOKENS = 5;
/** Longest run of tokens that make no whole character, which only a model of noise writes. */
const MAX_PENDING_TOKENS = 64;

/**
 * Turns a growing list of ids into text. A character whose last bytes are still to come is held back; all pieces and
 * `flush` together are the text of all ids.
 */
export class Detokenizer {
  readonly #tokenizer: Pick<ModelTokenizer, "decode">;
  readonly #options: { skipSpecialTokens: boolean };
  /** Tokens already shown that new ones are read behind, and their length as text. */
  #context: readonly number[];
  #contextLength: number;
  #pending: number[] = [];
  /** Length of the pending tokens' text that is shown. */
  #shown = 0;

  constructor(
    tokenizer: Pick<ModelTokenizer, "decode">,
    promptIds: readonly number[],
    skipSpecialTokens: boolean,
  ) {
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

  /** The text that is still held back. */
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
