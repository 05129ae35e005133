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

/** Stands at the end of a last message that is to be continued; a template that trims takes its blank away. */
const CONTINUED_HERE = "CANOPY_CONTINUED_HERE ";

/** The messages with a mark behind the last one's text, for `textToContinue`. */
export function toBeContinued<T extends ChatMessage>(messages: readonly T[]): T[] {
  return messages.map((message, index) =>
    index < messages.length - 1 ? message : { ...message, content: `${message.content}${CONTINUED_HERE}` }
  );
}

/**
 * What a template made of `toBeContinued`, up to the mark; the words alone may stand elsewhere, too. Undefined where the
 * template has left the last message out.
 */
export function textToContinue(rendered: string): string | undefined {
  const at = rendered.lastIndexOf(CONTINUED_HERE.trimEnd());
  if (at < 0) return undefined;
  const text = rendered.slice(0, at);
  return rendered.startsWith(CONTINUED_HERE, at) ? text : text.trimEnd();
}
