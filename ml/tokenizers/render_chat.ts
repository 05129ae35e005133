import { longStep, type Turns } from "../../base/turns.ts";
import type { ChatMessage, RenderOptions } from "./chat_message.ts";
import { INLINE_MESSAGES } from "./long_texts.ts";
import type { ModelTokenizer } from "./model_tokenizer.ts";

/** The prompt text of a conversation, as of `renderChat`; that of a long one from a thread. */
export function* renderInTurns(
  messages: readonly ChatMessage[],
  tokenizer: ModelTokenizer,
  options: RenderOptions = {},
): Turns<string> {
  const { longTexts } = tokenizer;
  const here = () => tokenizer.renderChat(messages, options);
  if (longTexts === undefined || messages.length <= INLINE_MESSAGES) return here();
  return yield* longStep({ here, elsewhere: () => longTexts.render(messages, options) });
}
