import { badRequest } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { isSet, requiredText, shown } from "../gate/fields.ts";
import { type NamedPart, TranslatedMessages } from "../openai/translated_messages.ts";

/** Most items of an input, as many as a chat has messages. */
const MAX_ITEMS = 2048;

const ROLES = ["user", "assistant", "system", "developer"];

/** The messages of a chat for a response's `instructions` and `input`. Throws 400 naming the item at fault. */
export function inputMessages(instructions: string | null | undefined, input: Json): TranslatedMessages {
  const messages = new TranslatedMessages();
  if (isSet(instructions)) messages.add("instructions", { role: "system" }, instructions);
  if (typeof input === "string") messages.add("input", { role: "user" }, input);
  if (!Array.isArray(input)) return messages;
  if (input.length > MAX_ITEMS) {
    throw badRequest(
      "input",
      `input may hold at most ${MAX_ITEMS} items, it holds ${input.length}: shorten the conversation`,
    );
  }
  for (const [at, item] of input.entries()) addItem(messages, `input[${at}]`, item);
  if (messages.messages.every(({ role }) => role === "system" || role === "developer")) {
    throw badRequest("input", "input asks nothing: add a user's message", "missing_field");
  }
  return messages;
}

function addItem(messages: TranslatedMessages, name: string, item: Json): void {
  if (!isJsonObject(item)) throw badRequest(name, `${name} must be an object`);
  const type = item["type"] ?? "message";
  if (type === "message") return addMessage(messages, name, item);
  if (type === "function_call") {
    return messages.addCall(name, {
      id: requiredText(item, "call_id", name),
      name: requiredText(item, "name", name),
      arguments: requiredText(item, "arguments", name),
    });
  }
  if (type === "function_call_output") {
    const id = requiredText(item, "call_id", name);
    return messages.add(name, { role: "tool", tool_call_id: id }, content(item["output"], `${name}.output`));
  }
  // What the root thought in an earlier turn is not read again: chat templates leave it out, too.
  if (type === "reasoning") return;
  throw badRequest(
    `${name}.type`,
    `${name}.type must be message, function_call, function_call_output or reasoning: current value is ${
      shown(type)
    }`,
    "unsupported_content",
  );
}

function addMessage(messages: TranslatedMessages, name: string, item: JsonObject): void {
  const { role } = item;
  if (typeof role !== "string" || !ROLES.includes(role)) {
    throw badRequest(
      `${name}.role`,
      `${name}.role must be one of ${ROLES.join(", ")}: current value is ${shown(role)}`,
    );
  }
  messages.add(name, { role }, content(item["content"], `${name}.content`));
}

function content(value: Json | undefined, name: string): string | NamedPart[] {
  if (typeof value === "string") return value;
  if (!Array.isArray(value) || value.length === 0) {
    throw badRequest(name, `${name} must be a text, or a list of at least one part`);
  }
  return value.map((part, at) => ({ part: partOf(part, `${name}[${at}]`), name: `${name}[${at}]` }));
}

function partOf(part: Json, name: string): JsonObject {
  if (!isJsonObject(part)) throw badRequest(name, `${name} must be an object`);
  const { type } = part;
  switch (type) {
    case "input_text":
    case "output_text":
    case "text":
      return { type: "text", text: requiredText(part, "text", name) };
    case "refusal":
      return { type: "text", text: requiredText(part, "refusal", name) };
    case "input_image": {
      refuseStored(part, name);
      const { detail } = part;
      const url = requiredText(part, "image_url", name);
      return { type: "image_url", image_url: isSet(detail) ? { url, detail } : { url } };
    }
    case "input_audio":
      return { type, input_audio: part["input_audio"] ?? null };
    case "input_file": {
      refuseStored(part, name);
      const { filename } = part;
      const file_data = requiredText(part, "file_data", name);
      return { type: "file", file: isSet(filename) ? { file_data, filename } : { file_data } };
    }
    default:
      throw badRequest(
        `${name}.type`,
        `${name}.type must be input_text, output_text, refusal, input_image, input_audio or input_file: ` +
          `current value is ${shown(type)}`,
        "unsupported_content",
      );
  }
}

function refuseStored(part: JsonObject, name: string): void {
  for (const field of ["file_id", "file_url"]) {
    if (!isSet(part[field])) continue;
    const param = `${name}.${field}`;
    throw badRequest(
      param,
      `${param} cannot be read: this router keeps and fetches no files; send the data itself`,
    );
  }
}
