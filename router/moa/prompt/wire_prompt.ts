import type { Turns } from "../../../base/turns.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import { renderInTurns } from "../../../ml/tokenizers/render_chat.ts";
import type { TokenEnds } from "../../../ml/tokenizers/long_texts.ts";
import { tokenEnds, type TokenEndsOptions } from "../../../ml/tokenizers/tokenise.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import { mediaParts, textOf } from "./conversation.ts";
import type { FilledPrompt } from "./open_prompt.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Request fields that only an engine's own chat endpoint understands. */
const CHAT_FIELDS = [
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "functions",
  "function_call",
  "response_format",
  "reasoning_effort",
  "chat_template",
  "chat_template_kwargs",
  "add_generation_prompt",
  "continue_final_message",
  "documents",
];

/**
 * The form in which a prompt goes to a model: a conversation as token ids where the router knows the model's tokenizer
 * and the engine takes ids, so that every later prompt that begins with the same text begins with the same ids; else
 * as it is. A raw prompt stays text: engines begin it with the model's BOS token, which they do not do for ids.
 * Throws 400 `invalid_messages` when the model's chat template refuses the conversation.
 */
export function* wirePrompt(
  prompt: FilledPrompt,
  model: ServedModel,
  sampling: Sampling,
  options: TokenEndsOptions = {},
): Turns<Prompt | Promise<Prompt>> {
  const text = yield* promptText(prompt, model, sampling);
  return text === undefined ? prompt : tokensPrompt(tokenEnds(text, model.tokenizer, options));
}

/** A prompt of token ids. */
export function tokensPrompt(
  ids: TokenEnds | readonly number[] | Promise<TokenEnds | readonly number[]>,
): Prompt | Promise<Prompt> {
  if (!(ids instanceof Promise)) return promptOf(ids);
  const prompt = ids.then(promptOf);
  // Whoever asked for it may have left.
  prompt.catch(() => {});
  return prompt;
}

function promptOf(known: TokenEnds | readonly number[]): Prompt {
  if (!("ids" in known)) return { kind: "tokens", ids: known };
  const { ids, tokens } = known;
  return tokens === ids.length ? { kind: "tokens", ids } : { kind: "tokens", ids, tokens };
}

/**
 * The text of a prompt that the router tokenises; undefined where the engine does.
 * Throws 400 `invalid_messages` when the model's chat template refuses the conversation.
 */
export function* promptText(
  prompt: FilledPrompt,
  model: ServedModel,
  sampling: Sampling,
): Turns<string | undefined> {
  return isTokenised(prompt, model, sampling) ? yield* renderMessages(prompt.messages, model) : undefined;
}

/** True for a conversation whose text and tokens the router makes; of other prompts the engine does. */
export function isTokenised(
  prompt: FilledPrompt,
  { tokenizer, engine }: ServedModel,
  sampling: Sampling,
): prompt is Extract<FilledPrompt, { kind: "chat" }> {
  return prompt.kind === "chat" && tokenizer !== undefined && tokenizer.hasChatTemplate &&
    engine.capabilities.tokenIds && !needsChatEndpoint(prompt.messages, sampling);
}

/** True when the parameters hold some that only an engine's own chat endpoint understands. */
export function hasChatFields(sampling: Sampling): boolean {
  const { extra } = sampling;
  return extra !== undefined && CHAT_FIELDS.some((field) => Object.hasOwn(extra, field));
}

/** True for what a chat template alone cannot express: tools, structured output, images, engine options. */
export function needsChatEndpoint(messages: readonly ChatMessage[], sampling: Sampling): boolean {
  return hasChatFields(sampling) ||
    messages.some((message) =>
      message.role === "tool" || Object.hasOwn(message, "tool_calls") ||
      mediaParts(message.content).length > 0
    );
}

/** The text of a conversation in the model's own chat template. */
function* renderMessages(
  messages: readonly ChatMessage[],
  { tokenizer, config }: ServedModel,
): Turns<string> {
  if (tokenizer === undefined) return "";
  // Many templates know only string contents; engines flatten lists of text parts for them, too.
  const flat = messages.map((message) =>
    Array.isArray(message.content) ? { ...message, content: textOf(message.content) } : message
  );
  return yield* renderInTurns(flat, tokenizer, { templateArguments: config.chat_template_arguments });
}
