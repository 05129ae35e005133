import type { ChatMessage, RenderOptions } from "./chat_message.ts";
import type { ControlTokens } from "./control_tokens.ts";
import type { LongTexts } from "./long_texts.ts";
import type { Streaming } from "./token_stream.ts";

/** A model's own tokenizer and chat template, loaded from its folder (`tokenizer.json`, `tokenizer_config.json`). */
export interface ModelTokenizer {
  /** Number of ids; ids are 0 … vocabSize − 1. */
  readonly vocabSize: number;
  /**
   * Token ids of a text, special tokens in it recognised, none added. `marked`: less those that the marks of
   * `ControlTokens` take apart.
   */
  encode(text: string, options?: { readonly marked?: boolean | undefined }): number[];
  /** Bytes of UTF-8 that one token stands for at most; absent: not known. */
  readonly maxTokenBytes?: number | undefined;
  /** Encodes long texts elsewhere; absent where `encode` may be given texts of any length. */
  readonly longTexts?: LongTexts | undefined;
  /** The tokens by which a model tells turns and tools from text; absent where there are none. */
  readonly control?: ModelControlTokens | undefined;
  /** Ids that engines put in front of a raw text, such as BOS; absent: not known. */
  readonly textPrefix?: readonly number[] | undefined;
  decode(ids: readonly number[], options?: { skipSpecialTokens?: boolean }): string;
  /** Encoding of texts that are still written; absent where it is not possible. */
  readonly streaming?: Streaming | undefined;
  /** True when the folder has a `chat_template`. */
  readonly hasChatTemplate: boolean;
  /** The prompt text of a conversation, with the generation prompt at the end. Throws 400 `invalid_messages`. */
  renderChat(
    messages: readonly ChatMessage[],
    options?: RenderOptions,
  ): string;
}

/** A model's control tokens. */
export interface ModelControlTokens {
  /** The special ones, and those of which the chat template speaks (`<tool_call>`, `<think>`). */
  readonly all: ControlTokens;
  readonly special: ControlTokens;
}
