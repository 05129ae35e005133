import { CanopyError } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { AnswerHead } from "./answer/answer.ts";
import type { RunAnswer } from "./answer/run_answer.ts";
import type { CompletionPlan } from "./plan.ts";

/** An API whose requests for graphs are chats in other words. */
export interface Translation {
  /** Throws 400 naming the field at fault. */
  translate(body: JsonObject): TranslatedChat;
}

/** A request of another API as a chat. */
export interface TranslatedChat {
  /** The body of a chat request. */
  readonly body: JsonObject;
  /** The client's names for what the chat is made of. */
  readonly names: ClientNames;
  /** The answer in the client's API; the id in `head` has no prefix. */
  answer(head: AnswerHead, plan: CompletionPlan): RunAnswer;
}

/** Names of a client's fields by those of the chat that they were translated into. */
export interface ClientNames {
  /** Of the chat's fields, such as `max_tokens`. */
  readonly fields: ReadonlyMap<string, string>;
  /** Of the chat's messages and their parts. */
  readonly messages: readonly MessageName[];
}

/** The client's name for a message of the chat, such as `input[3]`, and for its parts. */
export interface MessageName {
  readonly message: string;
  readonly parts?: readonly string[] | undefined;
}

/** The error with the client's name for the field at fault, in its sentence too; any other error as it is. */
export function inClientsWords(error: unknown, names: ClientNames): unknown {
  if (!CanopyError.is(error) || error.param === undefined || error.status >= 500) return error;
  const { param } = error;
  const name = clientsName(param, names);
  if (name === param) return error;
  return new CanopyError(error.message.replaceAll(param, () => name), {
    code: error.code,
    status: error.status,
    param: name,
    type: error.type,
    retryAfterSeconds: error.retryAfterSeconds,
    cause: error,
  });
}

function clientsName(param: string, { fields, messages }: ClientNames): string {
  const found = /^messages\[(\d+)\](?:\.content\[(\d+)\])?(.*)$/s.exec(param);
  if (found === null) return fields.get(param) ?? param;
  const [, message, part, rest = ""] = found;
  const name = messages[Number(message)];
  if (name === undefined) return param;
  if (part === undefined) return name.message + rest;
  return (name.parts?.[Number(part)] ?? name.message) + rest;
}
