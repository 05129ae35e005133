import { badRequest } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { requiredText, shown } from "../gate/fields.ts";
import { type NamedPart, TranslatedMessages } from "../openai/translated_messages.ts";

/** The messages of a chat for Anthropic's `system` and `messages`. Throws 400 naming the block at fault. */
export function chatMessages({ system, messages }: JsonObject): TranslatedMessages {
  const chat = new TranslatedMessages();
  if (typeof system === "string" ? system !== "" : Array.isArray(system)) {
    chat.add("system", { role: "system" }, contentParts(system ?? null, "system"));
  }
  const sent = Array.isArray(messages) ? messages.filter(isJsonObject) : [];
  for (const [at, { role, content }] of sent.entries()) {
    const name = `messages[${at}]`;
    if (role === "assistant") addAnswer(chat, name, content ?? null);
    else if (role === "system") chat.add(name, { role }, contentParts(content ?? null, `${name}.content`));
    else addQuestion(chat, name, content ?? null);
  }
  const last = sent.length - 1;
  if (sent[last]?.["role"] === "assistant") {
    const name = `messages[${last}]`;
    throw badRequest(
      name,
      `${name} is the assistant's: an answer cannot be begun by the client here; end with a user's message`,
      "unsupported_content",
    );
  }
  return chat;
}

/** A user's message: results of tools are messages of their own, before what else it says. */
function addQuestion(chat: TranslatedMessages, name: string, content: Json): void {
  const own: NamedPart[] = [];
  if (typeof content === "string") return chat.add(name, { role: "user" }, content);
  for (const [block, place] of blocksOf(content, `${name}.content`)) {
    if (block["type"] !== "tool_result") {
      own.push({ part: partOf(block, place), name: place });
      continue;
    }
    const id = requiredText(block, "tool_use_id", place);
    chat.add(place, { role: "tool", tool_call_id: id }, resultOf(block, place));
  }
  if (own.length > 0) chat.add(name, { role: "user" }, own);
}

/** What a tool has returned; that it failed stands in front, since a chat has no other place for that. */
function resultOf(block: JsonObject, place: string): string | NamedPart[] {
  const content = contentParts(block["content"] ?? "", `${place}.content`);
  if (block["is_error"] !== true) return content;
  if (typeof content === "string") return `Error: ${content}`;
  return [{ part: { type: "text", text: "Error:" }, name: place }, ...content];
}

/** An assistant's message: its texts, then its calls; what it thought is left out, as chat templates do. */
function addAnswer(chat: TranslatedMessages, name: string, content: Json): void {
  if (typeof content === "string") return chat.add(name, { role: "assistant" }, content);
  const said: NamedPart[] = [];
  const calls: (readonly [JsonObject, string])[] = [];
  for (const [block, place] of blocksOf(content, `${name}.content`)) {
    const { type } = block;
    if (type === "thinking" || type === "redacted_thinking") continue;
    if (type === "tool_use") calls.push([block, place]);
    else said.push({ part: partOf(block, place), name: place });
  }
  if (said.length > 0 || calls.length === 0) chat.add(name, { role: "assistant" }, said);
  for (const [block, place] of calls) {
    chat.addCall(place, {
      id: requiredText(block, "id", place),
      name: requiredText(block, "name", place),
      arguments: JSON.stringify(block["input"] ?? {}),
    });
  }
}

function contentParts(content: Json, name: string): string | NamedPart[] {
  if (typeof content === "string") return content;
  return blocksOf(content, name).map(([block, place]) => ({ part: partOf(block, place), name: place }));
}

function blocksOf(content: Json, name: string): (readonly [block: JsonObject, place: string])[] {
  if (!Array.isArray(content)) throw badRequest(name, `${name} must be a text or a list of blocks`);
  return content.map((block, at) => {
    const place = `${name}[${at}]`;
    if (!isJsonObject(block)) throw badRequest(place, `${place} must be an object`);
    return [block, place] as const;
  });
}

function partOf(block: JsonObject, place: string): JsonObject {
  const { type } = block;
  if (type === "text") return { type, text: requiredText(block, "text", place) };
  if (type === "image") return { type: "image_url", image_url: { url: imageUrl(block, place) } };
  if (type === "document") return { type: "text", text: documentText(block, place) };
  throw badRequest(
    `${place}.type`,
    `${place}.type must be text, image, document, tool_use, tool_result or thinking, where its message may have it: ` +
      `current value is ${shown(type)}`,
    "unsupported_content",
  );
}

function imageUrl(block: JsonObject, place: string): string {
  const [source, from] = sourceOf(block, place);
  if (source["type"] === "url") return requiredText(source, "url", from);
  if (source["type"] !== "base64") throw unknownSource(source, from, "base64 or url");
  return `data:${requiredText(source, "media_type", from)};base64,${requiredText(source, "data", from)}`;
}

/** The text of a document that is one; others would have to be read by somebody. */
function documentText(block: JsonObject, place: string): string {
  const [source, from] = sourceOf(block, place);
  if (source["type"] !== "text") throw unknownSource(source, from, "text");
  return requiredText(source, "data", from);
}

function sourceOf(block: JsonObject, place: string): readonly [JsonObject, string] {
  const from = `${place}.source`;
  const { source } = block;
  if (!isJsonObject(source)) throw badRequest(from, `${from} must be an object`);
  return [source, from];
}

function unknownSource(source: JsonObject, from: string, known: string) {
  const param = `${from}.type`;
  return badRequest(
    param,
    `${param} must be ${known}, since this router keeps and reads no files: current value is ${
      shown(source["type"])
    }`,
    "unsupported_content",
  );
}
