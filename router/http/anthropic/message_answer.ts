import { CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { RunEvent } from "../../moa/run/run.ts";
import { anthropicError } from "../../wire/error_form.ts";
import { namedEvent } from "../../wire/sse.ts";
import { isSet } from "../gate/fields.ts";
import type { AnswerHead } from "../openai/answer/answer.ts";
import { type AnswerPart, AnswerParts } from "../openai/answer/answer_parts.ts";
import type { RunAnswer, RunsSoFar } from "../openai/answer/run_answer.ts";
import type { MessageRequest } from "./request_schema.ts";

const STOP_REASONS = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  content_filter: "refusal",
} as const;

/** Anthropic's `message` and its events: what the root said, its calls, and what it thought where that is asked for. */
export class MessageAnswer implements RunAnswer {
  readonly streamType = "text/event-stream";
  readonly #head: AnswerHead;
  readonly #request: MessageRequest;
  readonly #parts: AnswerParts;
  /** Blocks of the stream that were begun. */
  #blocks = 0;
  #begun = false;

  constructor(head: AnswerHead, request: MessageRequest) {
    this.#head = head;
    this.#request = request;
    this.#parts = new AnswerParts(() => `toolu_${head.id}${this.#parts.parts.length}`);
  }

  add(event: RunEvent): void {
    for (const _ of this.#parts.push(event));
  }

  whole(runs: RunsSoFar): JsonObject {
    const cut = this.#parts.finishReason === "length" ? this.#parts.parts.at(-1) : undefined;
    const content = this.#parts.parts.filter((part) => this.#shows(part)).flatMap((part): Json[] => {
      const block = blockOf(part);
      if (part.kind !== "call") return [block];
      const input = inputOf(part, part === cut);
      return input === undefined ? [] : [{ ...block, input }];
    });
    return { ...this.#message(content, runs), ...this.#end(), ...this.#canopy(runs) };
  }

  *written(event: RunEvent, runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    yield* this.#begin(runs);
    for (const step of this.#parts.push(event)) {
      if (!this.#shows(step.part)) continue;
      if (step.type === "open") {
        const index = this.#blocks++;
        yield written({ type: "content_block_start", index, content_block: blockOf(step.part, "") });
        continue;
      }
      const index = this.#blocks - 1;
      const delta = (delta: JsonObject) => written({ type: "content_block_delta", index, delta });
      if (step.type === "more") {
        if (step.text !== "") yield delta(deltaOf(step.part, step.text));
        continue;
      }
      if (step.part.kind === "reasoning") yield delta({ type: "signature_delta", signature: "" });
      yield written({ type: "content_block_stop", index });
    }
  }

  *closing(runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    yield* this.#begin(runs);
    const usage = messageUsage(runs.usage());
    yield written({ type: "message_delta", delta: this.#end(), usage, ...this.#canopy(runs) });
    yield written({ type: "message_stop" });
  }

  *failed(error: CanopyError): Generator<Uint8Array, void, undefined> {
    yield namedEvent("error", anthropicError(error));
  }

  *#begin(runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    if (this.#begun) return;
    this.#begun = true;
    yield written({ type: "message_start", message: this.#message([], runs) });
    yield written({ type: "ping" });
  }

  /** What the root thought is for those who ask for it. */
  #shows({ kind }: AnswerPart): boolean {
    const thinking = this.#request.thinking?.type ?? "disabled";
    return kind !== "reasoning" || thinking !== "disabled";
  }

  #end(): JsonObject {
    const { finishReason = "stop", stopReason, parts } = this.#parts;
    // Engines end a call of the one tool that was asked for as they end a text.
    if (finishReason === "stop" && parts.some(({ kind }) => kind === "call")) {
      return { stop_reason: STOP_REASONS.tool_calls, stop_sequence: null };
    }
    const found = finishReason === "stop" && typeof stopReason === "string" &&
      this.#request.stop_sequences?.includes(stopReason) === true;
    return found
      ? { stop_reason: "stop_sequence", stop_sequence: stopReason }
      : { stop_reason: STOP_REASONS[finishReason], stop_sequence: null };
  }

  #message(content: Json[], runs: RunsSoFar): JsonObject {
    return {
      id: `msg_${this.#head.id}`,
      type: "message",
      role: "assistant",
      model: this.#head.model,
      content,
      stop_reason: null,
      stop_sequence: null,
      usage: messageUsage(runs.usage()),
    };
  }

  #canopy(runs: RunsSoFar): JsonObject {
    return isSet(this.#request["canopy"]) ? runs.canopy() : {};
  }
}

function written(event: JsonObject & { readonly type: string }): Uint8Array {
  return namedEvent(event.type, event);
}

/** A part as a block of content; a call's input comes apart from it. */
function blockOf(part: AnswerPart, text = part.text): JsonObject {
  if (part.kind === "call") return { type: "tool_use", id: part.id, name: part.name, input: {} };
  if (part.kind === "reasoning") return { type: "thinking", thinking: text, signature: "" };
  return { type: "text", text, citations: null };
}

function deltaOf({ kind }: AnswerPart, text: string): JsonObject {
  if (kind === "call") return { type: "input_json_delta", partial_json: text };
  return kind === "reasoning" ? { type: "thinking_delta", thinking: text } : { type: "text_delta", text };
}

/** A call's arguments; undefined for those that were cut with the answer. Throws 502 for what is no JSON. */
function inputOf({ name, text }: Extract<AnswerPart, { kind: "call" }>, cut: boolean): Json | undefined {
  try {
    const input: Json = JSON.parse(text === "" ? "{}" : text);
    return input;
  } catch (cause) {
    if (cut) return undefined;
    throw new CanopyError(
      `The root's call of ${
        name.slice(0, 60)
      } has arguments that are no JSON: ask again, or ask for a stream`,
      { code: "invalid_tool_call", status: 502, cause },
    );
  }
}

/** `usage` of a chat under Anthropic's names, in which what was cached is no input. */
function messageUsage(usage: JsonObject): JsonObject {
  const { prompt_tokens, completion_tokens, total_tokens: _, ...more } = usage;
  const { prompt_tokens_details: prompt, completion_tokens_details: completion, ...others } = more;
  const cached = isJsonObject(prompt) ? Number(prompt["cached_tokens"] ?? 0) : 0;
  const reasoning = isJsonObject(completion) ? completion["reasoning_tokens"] ?? 0 : 0;
  return {
    input_tokens: Math.max(0, Number(prompt_tokens ?? 0) - cached),
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: completion_tokens ?? 0,
    output_tokens_details: { thinking_tokens: reasoning },
    service_tier: "standard",
    ...others,
  };
}
