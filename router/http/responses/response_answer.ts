import type { CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { REWRITE_AGENT } from "../../moa/exit/agreed_rewrite.ts";
import { answeringAgents, type Graph } from "../../moa/graph/graph_types.ts";
import type { RunEvent } from "../../moa/run/run.ts";
import { namedEvent } from "../../wire/sse.ts";
import { isSet } from "../gate/fields.ts";
import type { AnswerHead } from "../openai/answer/answer.ts";
import { type AnswerPart, AnswerParts } from "../openai/answer/answer_parts.ts";
import type { RunAnswer, RunsSoFar } from "../openai/answer/run_answer.ts";
import type { ResponseRequest } from "./request_schema.ts";
import {
  itemOf,
  type ItemStatus,
  partEvents,
  type ResponseEvent,
  summaryEvents,
  summaryItem,
} from "./response_items.ts";
import { type SummaryDetail, whoSaid } from "./who_said.ts";

type Status = "in_progress" | "completed" | "incomplete" | "failed";

/** `response` and its events: the root's answer as items, with who said what in front where that is asked for. */
export class ResponseAnswer implements RunAnswer {
  readonly streamType = "text/event-stream";
  readonly #head: AnswerHead;
  readonly #request: ResponseRequest;
  readonly #body: JsonObject;
  readonly #parts: AnswerParts;
  /** The output so far: items that are done. */
  readonly #output: JsonObject[] = [];
  readonly #answering: ReadonlySet<string>;
  /** Agents of which a summary has told. */
  readonly #told = new Set<string>();
  /** The part that is written now. */
  #open: AnswerPart | undefined;
  #begun = false;
  #sequence = 0;

  /** `body`: the request as it was sent, which comes back with the answer. */
  constructor(
    head: AnswerHead,
    { request, body, graph }: {
      readonly request: ResponseRequest;
      readonly body: JsonObject;
      readonly graph: Graph;
    },
  ) {
    this.#head = head;
    this.#request = request;
    this.#body = body;
    this.#answering = new Set([...answeringAgents(graph).map(({ id }) => id), REWRITE_AGENT]);
    this.#parts = new AnswerParts(() => `call_${head.id}${this.#parts.parts.length}`);
  }

  add(event: RunEvent): void {
    for (const _ of this.#parts.push(event));
  }

  whole(runs: RunsSoFar): JsonObject {
    const texts = this.#whoSaid(runs);
    if (texts.length > 0) this.#output.push(summaryItem(this.#nextId(), texts));
    for (const part of this.#parts.parts) {
      this.#output.push(itemOf(part, this.#nextId(), this.#itemStatus(part === this.#parts.parts.at(-1))));
    }
    return this.#response(this.#endStatus(), runs);
  }

  *written(event: RunEvent, runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    yield* this.#begin(runs);
    for (const step of this.#parts.push(event)) {
      this.#open = step.type === "close" ? undefined : step.part;
      const id = this.#nextId();
      const status = this.#itemStatus(event.type === "end");
      const place = { output_index: this.#output.length, id, status };
      for (const one of partEvents(step, place)) yield this.#event(one);
      if (step.type === "close") this.#output.push(itemOf(step.part, id, status));
    }
  }

  *closing(runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    yield* this.#begin(runs);
    // Of agents that still wrote when the answer began.
    yield* this.#summary(runs);
    const status = this.#endStatus();
    yield this.#event({ type: `response.${status}`, response: this.#response(status, runs) });
  }

  *failed(error: CanopyError, runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    yield* this.#begin(runs);
    if (this.#open !== undefined) this.#output.push(itemOf(this.#open, this.#nextId(), "incomplete"));
    const code = error.status === 429 ? "rate_limit_exceeded" : "server_error";
    const { message } = error;
    const response = { ...this.#response("failed", runs), error: { code, message } };
    yield this.#event({ type: "response.failed", response });
  }

  *#begin(runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    if (this.#begun) return;
    this.#begun = true;
    for (const type of ["response.created", "response.in_progress"]) {
      yield this.#event({ type, response: this.#response("in_progress", runs) });
    }
    yield* this.#summary(runs);
  }

  *#summary(runs: RunsSoFar): Generator<Uint8Array, void, undefined> {
    const texts = this.#whoSaid(runs);
    if (texts.length === 0) return;
    const id = this.#nextId();
    for (const one of summaryEvents(id, this.#output.length, texts)) yield this.#event(one);
    this.#output.push(summaryItem(id, texts));
  }

  #whoSaid({ runs }: RunsSoFar): string[] {
    const { reasoning } = this.#request;
    const asked = reasoning?.summary ?? reasoning?.generate_summary ?? undefined;
    const [run] = runs;
    if (asked === undefined || run === undefined) return [];
    const detail: SummaryDetail = asked === "concise" ? "concise" : "detailed";
    return whoSaid(run.record(), { detail, answering: this.#answering, told: this.#told });
  }

  #nextId(): string {
    return `${this.#head.id}${this.#output.length}`;
  }

  #itemStatus(last: boolean): ItemStatus {
    return last && this.#endStatus() === "incomplete" ? "incomplete" : "completed";
  }

  #endStatus(): "completed" | "incomplete" {
    const reason = this.#parts.finishReason;
    return reason === "length" || reason === "content_filter" ? "incomplete" : "completed";
  }

  #event(event: ResponseEvent): Uint8Array {
    const { type, ...fields } = event;
    return namedEvent(type, { type, sequence_number: this.#sequence++, ...fields });
  }

  #response(status: Status, runs: RunsSoFar): JsonObject {
    const { id, created, model } = this.#head;
    const cut = this.#parts.finishReason === "content_filter" ? "content_filter" : "max_output_tokens";
    const ended = status !== "in_progress";
    return {
      id: `resp_${id}`,
      object: "response",
      created_at: created,
      status,
      background: false,
      error: null,
      incomplete_details: status === "incomplete" ? { reason: cut } : null,
      model,
      output: [...this.#output],
      ...this.#echo(),
      previous_response_id: null,
      store: false,
      truncation: "disabled",
      usage: ended ? responseUsage(runs.usage()) : null,
      ...(ended && isSet(this.#body["canopy"]) ? runs.canopy() : {}),
    };
  }

  /** The request's own fields, with their usual values where they were left out. */
  #echo(): JsonObject {
    const sent = (name: string, usual: Json): Json => this.#body[name] ?? usual;
    const reasoning = this.#body["reasoning"];
    const text = this.#body["text"];
    return {
      instructions: sent("instructions", null),
      max_output_tokens: sent("max_output_tokens", null),
      metadata: sent("metadata", {}),
      parallel_tool_calls: sent("parallel_tool_calls", true),
      reasoning: { effort: null, summary: null, ...(isJsonObject(reasoning) ? reasoning : {}) },
      temperature: sent("temperature", null),
      text: { format: { type: "text" }, ...(isJsonObject(text) ? text : {}) },
      tool_choice: sent("tool_choice", "auto"),
      tools: sent("tools", []),
      top_p: sent("top_p", null),
      top_logprobs: sent("top_logprobs", 0),
      user: sent("user", null),
    };
  }
}

/** `usage` of a chat under the names of a response's. */
function responseUsage(usage: JsonObject): JsonObject {
  const { prompt_tokens, completion_tokens, total_tokens, ...more } = usage;
  const { prompt_tokens_details: prompt, completion_tokens_details: completion, ...others } = more;
  return {
    input_tokens: prompt_tokens ?? 0,
    input_tokens_details: {
      cached_tokens: 0,
      cache_write_tokens: 0,
      ...(isJsonObject(prompt) ? prompt : {}),
    },
    output_tokens: completion_tokens ?? 0,
    output_tokens_details: isJsonObject(completion) ? completion : { reasoning_tokens: 0 },
    total_tokens: total_tokens ?? 0,
    ...others,
  };
}
