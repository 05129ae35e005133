import { badRequest } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { fieldError, isSet } from "../gate/fields.ts";
import type { TranslatedChat, Translation } from "../openai/translation.ts";
import { inputMessages } from "./input_messages.ts";
import { type ResponseRequest, responseRequestSchema } from "./request_schema.ts";
import { ResponseAnswer } from "./response_answer.ts";

/** Fields that are translated, echoed or without a meaning here: they do not go on as they are. */
const READ = new Set([
  ...Object.keys(responseRequestSchema.shape),
  ...["stream_options", "service_tier", "safety_identifier", "max_tool_calls"],
  ...["prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"],
]);
/** Of those, the ones that chats have by the same name. */
const SAME = ["model", "stream", "temperature", "top_p", "parallel_tool_calls", "top_logprobs"];

/** Fields of chats that are called otherwise here, or have no place in a response. */
const OF_CHATS: ReadonlyMap<string, string> = new Map([
  ["messages", "send input instead"],
  ["max_tokens", "send max_output_tokens instead"],
  ["max_completion_tokens", "send max_output_tokens instead"],
  ["response_format", "send text.format instead"],
  ["reasoning_effort", "send reasoning.effort instead"],
  ["logprobs", 'send include: ["message.output_text.logprobs"] instead'],
  ["n", "a response is one answer"],
  ["echo", "a response has the answer only"],
]);

const NAMES: ReadonlyMap<string, string> = new Map([
  ["messages", "input"],
  ["max_tokens", "max_output_tokens"],
  ["response_format", "text.format"],
  ["response_format.json_schema", "text.format"],
  ["reasoning_effort", "reasoning.effort"],
  ["logprobs", "include"],
  ["tool_choice.function.name", "tool_choice.name"],
]);

/** OpenAI's Responses as chats: stateless, each request with its whole history. */
export const responseTranslation: Translation = { translate };

function translate(body: JsonObject): TranslatedChat {
  const parsed = responseRequestSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const request = parsed.data;
  for (const [name, remedy] of OF_CHATS) {
    if (isSet(body[name])) {
      throw badRequest(name, `${name} belongs to /v1/chat/completions: ${remedy}`, "unsupported_parameter");
    }
  }
  const { messages, names } = inputMessages(request.instructions, body["input"] ?? null);
  const chat: [string, Json][] = Object.entries(body).filter(([name]) => !READ.has(name));
  for (const name of SAME) if (isSet(body[name])) chat.push([name, body[name]]);
  chat.push(["messages", messages], ...generation(request, body));
  return {
    // Not by assignment: a field named `__proto__` must stay a field.
    body: Object.fromEntries(chat),
    names: { fields: NAMES, messages: names },
    answer: (head, { graph }) => new ResponseAnswer(head, { request, body, graph }),
  };
}

/** The fields that a chat has by other names or in another form. */
function generation(request: ResponseRequest, body: JsonObject): [string, Json][] {
  const fields: [string, Json | undefined][] = [
    ["max_tokens", request.max_output_tokens ?? undefined],
    ["reasoning_effort", request.reasoning?.effort ?? undefined],
    ["response_format", responseFormat(body)],
    ["tools", tools(body["tools"])],
    ["tool_choice", toolChoice(body["tool_choice"])],
  ];
  if (request.include?.includes("message.output_text.logprobs")) fields.push(["logprobs", true]);
  else if (isSet(request.top_logprobs) && request.top_logprobs > 0) {
    throw badRequest("top_logprobs", 'top_logprobs needs "message.output_text.logprobs" in include');
  }
  return fields.flatMap(([name, value]): [string, Json][] => value === undefined ? [] : [[name, value]]);
}

/** A function without the object around it, which chats have. */
function tools(sent: Json | undefined): Json | undefined {
  if (!Array.isArray(sent)) return undefined;
  return sent.filter(isJsonObject).map(({ type, ...asked }): Json => ({
    type: type ?? null,
    function: asked,
  }));
}

function toolChoice(sent: Json | undefined): Json | undefined {
  if (!isJsonObject(sent)) return sent ?? undefined;
  return { type: "function", function: { name: sent["name"] ?? null } };
}

function responseFormat({ text }: JsonObject): Json | undefined {
  const format = isJsonObject(text) ? text["format"] : undefined;
  if (!isJsonObject(format) || format["type"] === "text") return undefined;
  const { type, ...schema } = format;
  return type === "json_schema" ? { type, json_schema: schema } : format;
}
