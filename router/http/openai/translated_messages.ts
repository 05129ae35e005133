import type { Json, JsonObject } from "../../../base/json.ts";
import type { MessageName } from "./translation.ts";

/** A part of a message's content, with the client's name for it. */
export interface NamedPart {
  readonly part: JsonObject;
  readonly name: string;
}

/** The messages of a chat that is translated from another API's, each with the client's name for it. */
export class TranslatedMessages {
  readonly messages: JsonObject[] = [];
  readonly names: MessageName[] = [];

  /** Adds a message. Its only text, and all texts of an assistant's, become a plain string, which every engine takes. */
  add(
    name: string,
    message: { readonly role: string } & JsonObject,
    content: string | readonly NamedPart[],
  ): void {
    this.names.push({ message: name, parts: partNames(content) });
    this.messages.push({ ...message, content: contentOf(message.role, content) });
  }

  /** Adds an assistant's call of a tool: to the message before it, where that is the assistant's, too. */
  addCall(
    name: string,
    call: { readonly id: string; readonly name: string; readonly arguments: string },
  ): void {
    const { id, ...asked } = call;
    const added: Json = { id, type: "function", function: asked };
    const last = this.messages.at(-1);
    if (last?.["role"] !== "assistant") {
      this.names.push({ message: name });
      this.messages.push({ role: "assistant", content: null, tool_calls: [added] });
      return;
    }
    const calls = last["tool_calls"];
    last["tool_calls"] = [...(Array.isArray(calls) ? calls : []), added];
  }
}

function partNames(content: string | readonly NamedPart[]): string[] | undefined {
  return typeof content === "string" ? undefined : content.map(({ name }) => name);
}

function contentOf(role: string, content: string | readonly NamedPart[]): Json {
  if (typeof content === "string") return content;
  const texts = content.flatMap(({ part }) => typeof part["text"] === "string" ? [part["text"]] : []);
  if (texts.length === content.length && (texts.length === 1 || role === "assistant")) return texts.join("");
  return content.map(({ part }) => part);
}
