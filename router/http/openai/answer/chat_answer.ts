import { isJsonObject, type Json, type JsonObject } from "../../../../base/json.ts";
import type { FinishReason, TokenLogprob } from "../../../engines/engine.ts";
import { type AnswerHead, type AnswerWriter, type EngineFields, NO_ENGINE_FIELDS } from "./answer.ts";
import { chatLogprobs } from "./logprobs.ts";
import type { RunEvent } from "../../../moa/run/run.ts";

interface Choice {
  started: boolean;
  text: string;
  reasoning: string;
  toolCalls: JsonObject[];
  logprobs: TokenLogprob[];
  tokenIds: number[];
  finishReason: FinishReason | null;
  stopReason: string | number | undefined;
}

/** `chat.completion` and `chat.completion.chunk`. */
export class ChatAnswer implements AnswerWriter {
  readonly #head: AnswerHead;
  readonly #logprobs: boolean;
  readonly #engine: EngineFields;
  readonly #choices: readonly Choice[];

  constructor(
    head: AnswerHead,
    options: { choices: number; logprobs: boolean; engine?: EngineFields | undefined },
  ) {
    this.#head = head;
    this.#logprobs = options.logprobs;
    this.#engine = options.engine ?? NO_ENGINE_FIELDS;
    this.#choices = Array.from({ length: options.choices }, () => ({
      started: false,
      text: "",
      reasoning: "",
      toolCalls: [],
      logprobs: [],
      tokenIds: [],
      finishReason: null,
      stopReason: undefined,
    }));
  }

  chunks(event: RunEvent): JsonObject[] {
    const choice = this.#choices[event.index];
    if (choice === undefined) return [];
    const chunks: JsonObject[] = [];
    if (!choice.started) {
      choice.started = true;
      const begin = this.#chunk(event.index, { role: "assistant", content: "" });
      chunks.push({ ...begin, ...this.#engine.ofPrompt(event.index) });
    }
    if (event.type === "end") {
      const end = { finish_reason: event.finishReason, ...this.#engine.ofEnd(event.stopReason) };
      chunks.push(this.#chunk(event.index, {}, end));
      return chunks;
    }
    const { text, reasoning, toolCalls, logprobs, tokenIds } = event.delta;
    const delta: JsonObject = {};
    if (reasoning !== undefined && reasoning !== "") delta["reasoning_content"] = reasoning;
    if (text !== "") delta["content"] = text;
    if (toolCalls !== undefined && toolCalls.length > 0) {
      delta["tool_calls"] = toolCalls.map((call, at) => ({ index: at, ...call }));
    }
    const scored = this.#logprobs && logprobs !== undefined && logprobs.length > 0;
    const more: JsonObject = this.#engine.ofTokens(tokenIds ?? []);
    if (scored) more["logprobs"] = chatLogprobs(logprobs);
    if (Object.keys(delta).length > 0 || Object.keys(more).length > 0) {
      // Clients index into content: a token without text is an empty one.
      if (Object.keys(delta).length === 0) delta["content"] = "";
      chunks.push(this.#chunk(event.index, delta, more));
    }
    return chunks;
  }

  closing(fields: JsonObject): JsonObject {
    return { ...this.#chunkHead(), choices: [], ...fields };
  }

  add(event: RunEvent): void {
    const choice = this.#choices[event.index];
    if (choice === undefined) return;
    if (event.type === "end") {
      choice.finishReason = event.finishReason;
      choice.stopReason = event.stopReason;
      return;
    }
    for (const id of event.delta.tokenIds ?? []) choice.tokenIds.push(id);
    choice.text += event.delta.text;
    choice.reasoning += event.delta.reasoning ?? "";
    if (event.delta.toolCalls !== undefined) mergeToolCalls(choice.toolCalls, event.delta.toolCalls);
    if (this.#logprobs) { for (const token of event.delta.logprobs ?? []) choice.logprobs.push(token); }
  }

  whole(fields: JsonObject): JsonObject {
    return {
      id: this.#head.id,
      object: "chat.completion",
      created: this.#head.created,
      model: this.#head.model,
      choices: this.#choices.map((choice, index): Json => {
        const { text, reasoning, toolCalls } = choice;
        return {
          index,
          message: {
            role: "assistant",
            content: text === "" && toolCalls.length > 0 ? null : text,
            refusal: null,
            ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
            ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls.map(({ index: _, ...call }) => call) }),
          },
          logprobs: this.#logprobs ? chatLogprobs(choice.logprobs) : null,
          finish_reason: choice.finishReason,
          ...this.#engine.ofEnd(choice.stopReason),
          ...this.#engine.ofTokens(choice.tokenIds),
        };
      }),
      ...this.#engine.ofPrompt(0),
      ...fields,
    };
  }

  #chunkHead(): JsonObject {
    const { id, created, model } = this.#head;
    return { id, object: "chat.completion.chunk", created, model };
  }

  #chunk(index: number, delta: JsonObject, more: JsonObject = {}): JsonObject {
    const choice = { index, delta, logprobs: null, finish_reason: null, ...more };
    return { ...this.#chunkHead(), choices: [choice] };
  }
}

/** Joins streamed parts: the first of each index has id and name, the arguments come in pieces. */
function mergeToolCalls(calls: JsonObject[], parts: readonly JsonObject[]): void {
  for (const [at, part] of parts.entries()) {
    const index = part["index"] ?? at;
    const call = calls.find((other) => other["index"] === index);
    if (call === undefined) {
      calls.push({ ...structuredClone(part), index });
      continue;
    }
    const more = part["function"];
    const known = call["function"];
    if (!isJsonObject(more) || typeof more["arguments"] !== "string") continue;
    if (isJsonObject(known)) {
      const before = known["arguments"];
      known["arguments"] = (typeof before === "string" ? before : "") + more["arguments"];
    } else call["function"] = { ...more };
  }
}
