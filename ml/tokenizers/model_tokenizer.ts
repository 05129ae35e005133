import type { Json } from "../../base/json.ts";
import type { ChatMessage } from "./chat_message.ts";
import type { Streaming } from "./token_stream.ts";

/** A model's own tokenizer and chat template, loaded from its folder (`tokenizer.json`, `tokenizer_config.json`). */
export interface ModelTokenizer {
  /** Number of ids; ids are 0 … vocabSize − 1. */
  readonly vocabSize: number;
  /** Token ids of a text, special tokens in it recognised, none added. */
  encode(text: string): number[];
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
    options?: { templateArguments?: Record<string, Json> },
  ): string;
}
