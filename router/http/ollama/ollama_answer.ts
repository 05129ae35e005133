import { CanopyError } from "../../../base/errors.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import type { RunEvent } from "../../moa/run/run.ts";
import type { AnswerHead } from "../openai/answer/answer.ts";
import { type AnswerPart, AnswerParts } from "../openai/answer/answer_parts.ts";
import type { RunAnswer, RunsSoFar } from "../openai/answer/run_answer.ts";

const ENCODER = new TextEncoder();

/** Form of an answer: a chat's has a message, a generation's a text. */
export type OllamaForm = "chat" | "generate";

/** Ollama's answer: lines of JSON, the last one with the counts. */
export class OllamaAnswer implements RunAnswer {
  readonly streamType = "application/x-ndjson";
  readonly #head: AnswerHead;
  readonly #thinks: boolean;
  readonly #form: OllamaForm;
  readonly #parts: AnswerParts;

  /** `thinks`: what the root thinks is shown. */
  constructor(head: AnswerHead, options: { readonly thinks: boolean; readonly form: OllamaForm }) {
    this.#head = head;
    this.#thinks = options.thinks;
    this.#form = options.form;
    this.#parts = new AnswerParts(() => `call_${head.id}${this.#parts.parts.length}`);
  }

  add(event: RunEvent): void {
    for (const _ of this.#parts.push(event));
  }

  whole(runs: RunsSoFar): JsonObject {
    const joined = (kind: AnswerPart["kind"]) =>
      this.#parts.parts.flatMap((part) => part.kind === kind ? [part.text] : []).join("");
    const message: JsonObject = { content: joined("text") };
    const thinking = joined("reasoning");
    if (this.#thinks && thinking !== "") message["thinking"] = thinking;
    const calls = this.#parts.parts.flatMap((part) => this.#call(part));
    if (calls.length > 0) message["tool_calls"] = calls;
    return { ...this.#chunk(message, true), ...this.#end(runs) };
  }

  *written(event: RunEvent): Generator<Uint8Array, void, undefined> {
    for (const { type, part, ...step } of this.#parts.push(event)) {
      if (part.kind === "call") {
        // A call is one line: its arguments are an object there.
        const tool_calls = type === "close" ? this.#call(part) : [];
        if (tool_calls.length > 0) yield line(this.#chunk({ content: "", tool_calls }, false));
        continue;
      }
      const text = "text" in step ? step.text : "";
      if (text === "") continue;
      if (part.kind === "text") yield line(this.#chunk({ content: text }, false));
      else if (this.#thinks) yield line(this.#chunk({ content: "", thinking: text }, false));
    }
  }

  *closing(runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    yield line({ ...this.#chunk({ content: "" }, true), ...this.#end(runs) });
  }

  *failed({ message }: CanopyError): Generator<Uint8Array, void, undefined> {
    yield line({ error: message });
  }

  /** A call that is whole; none where it was cut with the answer. Throws 502 for arguments that are no JSON. */
  #call(part: AnswerPart): JsonObject[] {
    if (part.kind !== "call") return [];
    const { id, name, text } = part;
    const index = this.#parts.parts.filter(({ kind }) => kind === "call").indexOf(part);
    try {
      const sent: Json = JSON.parse(text === "" ? "{}" : text);
      return [{ id, function: { index, name, arguments: sent } }];
    } catch (cause) {
      if (this.#parts.finishReason === "length") return [];
      const message = `The root's call of ${name.slice(0, 60)} has arguments that are no JSON: ask again`;
      throw new CanopyError(message, { code: "invalid_tool_call", status: 502, cause });
    }
  }

  #chunk(message: JsonObject, done: boolean): JsonObject {
    const { model, created } = this.#head;
    const created_at = new Date(created * 1000).toISOString();
    if (this.#form === "chat") {
      return { model, created_at, message: { role: "assistant", ...message }, done };
    }
    const { content: response = "", thinking } = message;
    return { model, created_at, response, ...(thinking === undefined ? {} : { thinking }), done };
  }

  #end(runs: RunsSoFar): JsonObject {
    const { prompt_tokens, completion_tokens } = runs.usage();
    return {
      done_reason: this.#parts.finishReason === "length" ? "length" : "stop",
      prompt_eval_count: prompt_tokens ?? 0,
      eval_count: completion_tokens ?? 0,
    };
  }
}

function line(value: JsonObject): Uint8Array {
  return ENCODER.encode(`${JSON.stringify(value)}\n`);
}
