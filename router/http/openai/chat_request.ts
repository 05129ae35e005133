import { badRequest } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { Turns } from "../../../base/turns.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import { INLINE_MESSAGES } from "../../../ml/tokenizers/long_texts.ts";
import { fieldError, isSet } from "../gate/fields.ts";
import { readBudget } from "./run_reach.ts";
import { commonPlan, type CompletionPlan, requireLogprobs, type RunTarget, splitStops } from "./plan.ts";
import { type ChatRequest, chatRequestSchema } from "./request_schema.ts";
import { readSampling } from "./sampling.ts";

/** Longest conversation, as of OpenAI's own API. */
const MAX_MESSAGES = 2048;

/** Reads a chat request to a virtual model. Throws 400 naming the field at fault. */
export function* readChat(
  body: JsonObject,
  target: RunTarget,
  headers: Readonly<Record<string, string>>,
): Turns<CompletionPlan> {
  const { messages } = body;
  if (Array.isArray(messages) && messages.length > MAX_MESSAGES) {
    throw badRequest(
      "messages",
      `messages may hold at most ${MAX_MESSAGES} messages, it holds ${messages.length}: shorten the conversation`,
    );
  }
  const isLong = Array.isArray(messages) && messages.length > INLINE_MESSAGES;
  if (isLong) yield;
  const parsed = chatRequestSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const request = parsed.data;
  if (isLong) yield;
  for (const name of ["prompt", "echo", "suffix", "best_of"]) {
    if (isSet(body[name]) && body[name] !== false) {
      throw badRequest(name, `${name} belongs to /v1/completions: leave it out of a chat request`);
    }
  }
  const logprobs = readLogprobs(request);
  if (logprobs !== undefined) requireLogprobs(target);
  const common = commonPlan(request, body, target);
  const { sampling, ownStops } = splitStops(readSampling(request, body), target);
  const question = { kind: "chat", messages: readMessages(messages ?? []) } as const;
  if (isLong) yield;
  return {
    ...common,
    inputs: [{
      question,
      rootSampling: sampling,
      rootLogprobs: logprobs,
      choices: common.choices,
      root: common.root,
      budget: readBudget(request),
      whole: !common.stream && ownStops.length === 0,
      headers,
    }],
    logprobs: logprobs !== undefined,
    ownStops,
    echo: undefined,
  };
}

/** Alternatives wanted for each token; undefined when no log-probabilities are. */
export function readLogprobs(request: Pick<ChatRequest, "logprobs" | "top_logprobs">): number | undefined {
  if (request.logprobs === true) return request.top_logprobs ?? 0;
  if (isSet(request.top_logprobs) && request.top_logprobs > 0) {
    throw badRequest("top_logprobs", "top_logprobs needs logprobs: true");
  }
  return undefined;
}

/** Unknown fields are kept; `null` fields are left out, since engines refuse some of them (`name: null`). */
export function readMessages(messages: Json): ChatMessage[] {
  if (!Array.isArray(messages)) return [];
  return messages.map((message, at) => {
    if (!isJsonObject(message)) throw badRequest(`messages[${at}]`, `messages[${at}] must be an object`);
    const { role, content } = message;
    if (typeof role !== "string") {
      throw badRequest(`messages[${at}].role`, `messages[${at}].role is required`);
    }
    checkContent(role, content ?? null, at);
    const kept = Object.entries(message).filter(([name, value]) => value !== null && name !== "content");
    return { ...Object.fromEntries(kept), role, content: content ?? null };
  });
}

function checkContent(role: string, content: Json, at: number): void {
  const name = `messages[${at}].content`;
  // Only an assistant's message may consist of something else (tool calls, a refusal).
  if (content === null && role !== "assistant") {
    throw badRequest(name, `${name} is required`, "missing_field");
  }
  if (!Array.isArray(content)) return;
  content.forEach((part, index) => {
    if (isJsonObject(part) && part["type"] === "text" && typeof part["text"] !== "string") {
      throw badRequest(`${name}[${index}].text`, `${name}[${index}].text must be a string`);
    }
  });
}
