import { isJsonObject, type Json } from "../../../base/json.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import type { Question } from "../graph/run_input.ts";

/** The conversation that a chat prompt is made from; a raw prompt becomes one user message. */
export function conversationOf(question: Question): readonly ChatMessage[] {
  return question.kind === "chat" ? question.messages : [{ role: "user", content: question.text }];
}

/**
 * The text of `[input_prompts]` in a chat prompt: that of the user's message if there is only one, else
 * the whole conversation as a transcript. System messages are not part of it: they stay messages of their own.
 */
export function questionText(messages: readonly ChatMessage[]): string {
  const turns = messages.filter((message) => !isSystem(message));
  const only = turns.length === 1 ? turns[0] : undefined;
  if (only?.role === "user") return textOf(only.content);
  return turns.map((turn) => `${speaker(turn.role)}: ${turnText(turn)}`).join("\n\n");
}

/** The text of `[input_prompts]` in a raw prompt: the client's raw prompt, or system texts and question. */
export function rawQuestionText(question: Question): string {
  if (question.kind === "text") return question.text;
  const system = question.messages.filter(isSystem).map((message) => textOf(message.content));
  return [...system, questionText(question.messages)].join("\n\n");
}

/** True for the messages that instruct the model: OpenAI calls them `system`, later `developer`. */
export function isSystem(message: ChatMessage): boolean {
  return message.role === "system" || message.role === "developer";
}

/** The text of a message's content; parts that are not text are left out. */
export function textOf(content: Json | undefined): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map(partText).filter((text) => text !== undefined).join("\n");
}

/** The parts of a message's content that are not text: images, audio, files. */
export function mediaParts(content: Json | undefined): Json[] {
  return Array.isArray(content) ? content.filter((part) => partText(part) === undefined) : [];
}

function partText(part: Json): string | undefined {
  if (typeof part === "string") return part;
  return isJsonObject(part) && part["type"] === "text" && typeof part["text"] === "string"
    ? part["text"]
    : undefined;
}

function turnText(message: ChatMessage): string {
  const calls = message["tool_calls"];
  const lines = [textOf(message.content)];
  if (Array.isArray(calls)) lines.push(...calls.map((call) => JSON.stringify(call)));
  return lines.filter((line) => line !== "").join("\n");
}

function speaker(role: string): string {
  return role.charAt(0).toUpperCase() + role.slice(1);
}
