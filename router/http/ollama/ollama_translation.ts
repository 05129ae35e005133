import type { Json, JsonObject } from "../../../base/json.ts";
import { fieldError, isSet } from "../gate/fields.ts";
import { type NamedPart, TranslatedMessages } from "../openai/translated_messages.ts";
import type { TranslatedChat, Translation } from "../openai/translation.ts";
import { OllamaAnswer, type OllamaForm } from "./ollama_answer.ts";
import {
  type OllamaChatRequest,
  ollamaChatSchema,
  type OllamaCommonRequest,
  type OllamaGenerateRequest,
  ollamaGenerateSchema,
} from "./request_schema.ts";

/** Options that chats have by the same name. */
const SAME = [
  ...["temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "seed", "stop"],
];

const NAMES: ReadonlyMap<string, string> = new Map([
  ...SAME.map((name) => [name, `options.${name}`] as const),
  ["max_tokens", "options.num_predict"],
  ["repetition_penalty", "options.repeat_penalty"],
  ["response_format", "format"],
  ["reasoning_effort", "think"],
]);

/** Ollama's `/api/chat` as chats. */
export const ollamaChats: Translation = {
  translate: (body) => {
    const request = readOllamaChat(body);
    return translated(body, request, { form: "chat", sent: chatMessages(request.messages ?? []) });
  },
};

/** Ollama's `/api/generate` as chats. */
export const ollamaGenerations: Translation = {
  translate: (body) => {
    const request = readGenerate(body);
    return translated(body, request, { form: "generate", sent: promptMessages(request) });
  },
};

/** A chat's request. Throws 400 naming the field at fault. */
export function readOllamaChat(body: JsonObject): OllamaChatRequest {
  const parsed = ollamaChatSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  return parsed.data;
}

/** A generation's request. Throws 400 naming the field at fault. */
export function readGenerate(body: JsonObject): OllamaGenerateRequest {
  const parsed = ollamaGenerateSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  return parsed.data;
}

function translated(
  body: JsonObject,
  request: OllamaCommonRequest,
  { form, sent: { messages, names } }: { readonly form: OllamaForm; readonly sent: TranslatedMessages },
): TranslatedChat {
  const { options, format, think, model } = request;
  const chat: JsonObject = { model, messages, stream: request.stream ?? true };
  const sent = body["options"];
  for (const name of SAME) {
    const value = isObject(sent) ? sent[name] : undefined;
    if (isSet(value)) chat[name] = value;
  }
  if (isSet(options?.repeat_penalty)) chat["repetition_penalty"] = options.repeat_penalty;
  const most = options?.num_predict ?? -1;
  if (most >= 0) chat["max_tokens"] = most;
  if (isSet(body["tools"])) chat["tools"] = body["tools"];
  if (typeof think === "string") chat["reasoning_effort"] = think;
  if (format === "json") chat["response_format"] = { type: "json_object" };
  else if (isObject(body["format"])) {
    chat["response_format"] = {
      type: "json_schema",
      json_schema: { name: "output", schema: body["format"], strict: true },
    };
  }
  return {
    body: chat,
    names: { fields: NAMES, messages: names },
    answer: (head) => new OllamaAnswer(head, { thinks: think !== false, form }),
  };
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function promptMessages({ system, prompt, images }: OllamaGenerateRequest): TranslatedMessages {
  const chat = new TranslatedMessages();
  if (isSet(system) && system !== "") chat.add("system", { role: "system" }, system);
  const text = prompt ?? "";
  const role = "user";
  if ((images ?? []).length === 0) chat.add("prompt", { role }, text);
  else chat.add("prompt", { role }, withImages(text, images ?? [], { text: "prompt", images: "images" }));
  return chat;
}

/** Calls have no ids in Ollama's chats: a tool's result belongs to the first call of its name that has none yet. */
function chatMessages(sent: NonNullable<OllamaChatRequest["messages"]>): TranslatedMessages {
  const chat = new TranslatedMessages();
  let pending: { readonly id: string; readonly name: string }[] = [];
  let calls = 0;
  for (const [at, message] of sent.entries()) {
    const name = `messages[${at}]`;
    const { role, tool_name: tool } = message;
    const content = message.content ?? "";
    if (role === "tool") {
      const call = pending.find((one) => one.id === message.tool_call_id || one.name === tool) ?? pending[0];
      pending = pending.filter((one) => one !== call);
      const tool_call_id = message.tool_call_id ?? call?.id ?? "call";
      chat.add(name, { role, tool_call_id }, content);
      continue;
    }
    const asked = message.tool_calls ?? [];
    const images = message.images ?? [];
    const names = { text: `${name}.content`, images: `${name}.images` };
    if (images.length > 0) chat.add(name, { role }, withImages(content, images, names));
    else if (content !== "" || asked.length === 0) chat.add(name, { role }, content);
    for (const call of asked) {
      const id = call.id ?? `call_${calls++}`;
      pending.push({ id, name: call.function.name });
      const sentArguments = JSON.stringify(call.function.arguments ?? {});
      chat.addCall(name, { id, name: call.function.name, arguments: sentArguments });
    }
  }
  return chat;
}

function withImages(
  text: string,
  images: readonly string[],
  names: { readonly text: string; readonly images: string },
): NamedPart[] {
  const parts: NamedPart[] = text === "" ? [] : [{ part: { type: "text", text }, name: names.text }];
  for (const [at, data] of images.entries()) {
    const url = data.startsWith("data:") ? data : `data:${mediaType(data)};base64,${data}`;
    parts.push({ part: { type: "image_url", image_url: { url } }, name: `${names.images}[${at}]` });
  }
  return parts;
}

/** Ollama's clients do not say it: the first bytes do. */
function mediaType(base64: string): string {
  if (base64.startsWith("iVBOR")) return "image/png";
  if (base64.startsWith("R0lGOD")) return "image/gif";
  return base64.startsWith("UklGR") ? "image/webp" : "image/jpeg";
}
