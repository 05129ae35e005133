import type { Json, JsonObject } from "../../../base/json.ts";
import type { TokenLogprob } from "../../engines/engine.ts";
import type { AnswerPart, PartEvent } from "../openai/answer/answer_parts.ts";
import { chatLogprobs } from "../openai/answer/logprobs.ts";

/** State of an item: `incomplete` where the answer was cut. */
export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** An item of a response's output, which a part of the answer becomes. */
export function itemOf(part: AnswerPart, id: string, status: ItemStatus): JsonObject {
  const open = status === "in_progress";
  if (part.kind === "call") {
    return {
      id: `fc_${id}`,
      type: "function_call",
      status,
      call_id: part.id,
      name: part.name,
      arguments: open ? "" : part.text,
    };
  }
  if (part.kind === "reasoning") {
    return { id: `rs_${id}`, type: "reasoning", summary: [], content: open ? [] : [contentOf(part)], status };
  }
  return {
    id: `msg_${id}`,
    type: "message",
    status,
    role: "assistant",
    content: open ? [] : [contentOf(part)],
  };
}

/** A reasoning item with a summary only. */
export function summaryItem(id: string, texts: readonly string[]): JsonObject {
  return { id: `rs_${id}`, type: "reasoning", summary: texts.map(summaryText), status: "completed" };
}

function contentOf(part: Exclude<AnswerPart, { kind: "call" }>, text = part.text): JsonObject {
  if (part.kind === "reasoning") return { type: "reasoning_text", text };
  return {
    type: "output_text",
    text,
    annotations: [],
    logprobs: logprobsOf(text === "" ? [] : part.logprobs),
  };
}

function logprobsOf(tokens: readonly TokenLogprob[]): Json {
  return chatLogprobs(tokens)["content"] ?? [];
}

function summaryText(text: string): JsonObject {
  return { type: "summary_text", text };
}

/** An event of a response's stream, without its number. */
export type ResponseEvent = JsonObject & { readonly type: string };

/** The events that a step of a part becomes. `place`: where its item stands, and its id. */
export function partEvents(
  { type, part, ...step }: PartEvent,
  place: { readonly output_index: number; readonly id: string; readonly status: ItemStatus },
): ResponseEvent[] {
  const { output_index, id, status } = place;
  const item = itemOf(part, id, type === "close" ? status : "in_progress");
  const item_id = item["id"] ?? null;
  if (type === "open") {
    const added: ResponseEvent = { type: "response.output_item.added", output_index, item };
    if (part.kind === "call") return [added];
    const content = { type: "response.content_part.added", item_id, output_index, content_index: 0 };
    return [added, { ...content, part: contentOf(part, "") }];
  }
  if (type === "close") {
    return [...endEvents(part, { item_id, output_index }), {
      type: "response.output_item.done",
      output_index,
      item,
    }];
  }
  const { text: delta = "", logprobs = [] } = "text" in step ? step : {};
  if (part.kind === "call") {
    return [{ type: "response.function_call_arguments.delta", item_id, output_index, delta }];
  }
  const at = { item_id, output_index, content_index: 0, delta };
  if (part.kind === "reasoning") return [{ type: "response.reasoning_text.delta", ...at }];
  return [{ type: "response.output_text.delta", ...at, logprobs: logprobsOf(logprobs) }];
}

function endEvents(
  part: AnswerPart,
  place: { readonly item_id: Json; readonly output_index: number },
): ResponseEvent[] {
  if (part.kind === "call") {
    const { name, text } = part;
    return [{ type: "response.function_call_arguments.done", ...place, name, arguments: text }];
  }
  const at = { ...place, content_index: 0 };
  const { text } = part;
  const done: ResponseEvent = part.kind === "reasoning"
    ? { type: "response.reasoning_text.done", ...at, text }
    : { type: "response.output_text.done", ...at, text, logprobs: logprobsOf(part.logprobs) };
  return [done, { type: "response.content_part.done", ...at, part: contentOf(part) }];
}

/** The events of a summary. */
export function summaryEvents(id: string, output_index: number, texts: readonly string[]): ResponseEvent[] {
  const item = summaryItem(id, texts);
  const item_id = item["id"] ?? null;
  return [
    {
      type: "response.output_item.added",
      output_index,
      item: { ...item, summary: [], status: "in_progress" },
    },
    ...texts.flatMap((text, summary_index): ResponseEvent[] => {
      const at = { item_id, output_index, summary_index };
      const part = "response.reasoning_summary_part";
      const written = "response.reasoning_summary_text";
      return [
        { type: `${part}.added`, ...at, part: summaryText("") },
        { type: `${written}.delta`, ...at, delta: text },
        { type: `${written}.done`, ...at, text },
        { type: `${part}.done`, ...at, part: summaryText(text) },
      ];
    }),
    { type: "response.output_item.done", output_index, item },
  ];
}
