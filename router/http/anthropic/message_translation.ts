import { badRequest } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { fieldError, isSet } from "../gate/fields.ts";
import type { ClientNames, TranslatedChat, Translation } from "../openai/translation.ts";
import { chatMessages } from "./blocks.ts";
import { MessageAnswer } from "./message_answer.ts";
import { messageRequestSchema } from "./request_schema.ts";

/** Fields that are translated or without a meaning here: they do not go on as they are. */
const READ = new Set([
  ...Object.keys(messageRequestSchema.shape),
  ...[
    "service_tier",
    "cache_control",
    "inference_geo",
    "diagnostics",
    "user_profile_id",
    "workspace_id",
    "betas",
  ],
]);
/** Of those, the ones that chats have by the same name. */
const SAME = ["model", "stream", "max_tokens", "temperature", "top_p", "top_k"];

/** Fields of chats that are called otherwise here, or have no place in a message. */
const OF_CHATS: ReadonlyMap<string, string> = new Map([
  ["stop", "send stop_sequences instead"],
  ["max_completion_tokens", "send max_tokens instead"],
  ["response_format", "send output_config.format instead"],
  ["reasoning_effort", "send output_config.effort instead"],
  ["parallel_tool_calls", "send tool_choice.disable_parallel_tool_use instead"],
  ["logprobs", "a message has no place for them"],
  ["top_logprobs", "a message has no place for them"],
  ["stream_options", "a message's stream has its usage always"],
  ["n", "a message is one answer"],
  ["echo", "a message has the answer only"],
]);

const NAMES: ReadonlyMap<string, string> = new Map([
  ["stop", "stop_sequences"],
  ["response_format", "output_config.format"],
  ["response_format.json_schema", "output_config.format"],
  ["reasoning_effort", "output_config.effort"],
  ["tool_choice.function.name", "tool_choice.name"],
]);

const CHOICES: Readonly<Record<string, string>> = { auto: "auto", any: "required", none: "none" };

/** Anthropic's Messages as chats. */
export const messageTranslation: Translation = { translate };

function translate(body: JsonObject): TranslatedChat {
  const parsed = messageRequestSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const request = parsed.data;
  for (const [name, remedy] of OF_CHATS) {
    if (isSet(body[name])) {
      throw badRequest(name, `${name} belongs to /v1/chat/completions: ${remedy}`, "unsupported_parameter");
    }
  }
  const { messages, names } = chatMessages(body);
  const chat: [string, Json][] = Object.entries(body).filter(([name]) => !READ.has(name));
  for (const name of SAME) if (isSet(body[name])) chat.push([name, body[name]]);
  chat.push(["messages", messages], ...chatTools(body), ...outputFields(body));
  if (isSet(body["stop_sequences"])) chat.push(["stop", body["stop_sequences"]]);
  return {
    // Not by assignment: a field named `__proto__` must stay a field.
    body: Object.fromEntries(chat),
    names: clientNames(names),
    answer: (head) => new MessageAnswer(head, request),
  };
}

/** Anthropic's names for what a chat is made of. */
export function clientNames(messages: ClientNames["messages"]): ClientNames {
  return { fields: NAMES, messages };
}

/** The tools of a chat, and which of them are to be called. */
export function chatTools({ tools, tool_choice: choice }: JsonObject): [string, Json][] {
  const fields: [string, Json][] = [];
  if (Array.isArray(tools)) fields.push(["tools", tools.filter(isJsonObject).map(chatTool)]);
  if (!isJsonObject(choice)) return fields;
  const { type, name, disable_parallel_tool_use: alone } = choice;
  const named: Json = { type: "function", function: { name: name ?? null } };
  fields.push(["tool_choice", typeof type === "string" ? CHOICES[type] ?? named : named]);
  if (alone === true) fields.push(["parallel_tool_calls", false]);
  return fields;
}

function chatTool({ name, description, input_schema: parameters, strict }: JsonObject): Json {
  const asked: JsonObject = { name: name ?? null, parameters: parameters ?? null };
  if (isSet(description)) asked["description"] = description;
  if (isSet(strict)) asked["strict"] = strict;
  return { type: "function", function: asked };
}

function outputFields({ output_config: output }: JsonObject): [string, Json][] {
  if (!isJsonObject(output)) return [];
  const { effort, format } = output;
  const fields: [string, Json][] = [];
  if (isSet(effort)) fields.push(["reasoning_effort", effort]);
  if (isJsonObject(format)) {
    const json_schema = { name: "output", schema: format["schema"] ?? null, strict: true };
    fields.push(["response_format", { type: "json_schema", json_schema }]);
  }
  return fields;
}
