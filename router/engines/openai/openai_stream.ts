import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { EngineUsage, FinishReason, GenerateEvent, TokenLogprob } from "../engine.ts";
import {
  type AnswerDecoder,
  type DecodedDelta,
  type End,
  type NewDelta,
  readEvents,
  type ReadEventsOptions,
} from "../protocol/read_events.ts";
import type { CalledWorker, UpstreamCall } from "../../worker/upstream_call.ts";
import {
  cutStream,
  givenUp,
  invalidAnswer,
  readComplaint,
  streamedError,
} from "../../worker/worker_errors.ts";

/** Opens an OpenAI-style completions or chat call and reads its answer, streamed or whole, into events. */
export function readOpenAi(
  call: UpstreamCall,
  options: Pick<ReadEventsOptions, "clock" | "open">,
): AsyncGenerator<GenerateEvent, void, void> {
  return readEvents(call, {
    clock: options.clock,
    decoderOf: (worker) => new OpenAiDecoder(worker),
    open: options.open,
  });
}

/** Turns the chunks of one OpenAI-style answer into events. Only choice 0 is read: requests ask for one. */
export class OpenAiDecoder implements AnswerDecoder {
  readonly #worker: CalledWorker;
  #finish: FinishReason | undefined;
  #stopReason: string | number | undefined;
  #usage: EngineUsage | undefined;
  #promptTokens: number | undefined;
  #tokens = 0;
  #deltas = 0;

  constructor(worker: CalledWorker) {
    this.#worker = worker;
  }

  /** One chunk's delta, undefined if it has none. Throws `EngineError` for error events and broken JSON. */
  push(data: string): DecodedDelta | undefined {
    return this.pushParsed(parseObject(data, this.#worker));
  }

  pushParsed(chunk: JsonObject): DecodedDelta | undefined {
    if (chunk.error !== undefined && chunk.error !== null || chunk.object === "error") {
      throw streamedError(this.#worker, readComplaint(chunk));
    }
    if (isJsonObject(chunk.usage)) this.#usage = usageOf(chunk.usage);
    const choice = Array.isArray(chunk.choices)
      ? chunk.choices.find((item) => isJsonObject(item) && (item.index ?? 0) === 0)
      : undefined;
    if (!isJsonObject(choice)) return undefined;
    this.#finished(choice);
    // Streams with token ids begin with the prompt's: completions in the choice, chats beside it.
    const promptIds = choice.prompt_token_ids ?? chunk.prompt_token_ids;
    if (Array.isArray(promptIds)) this.#promptTokens = promptIds.length;
    const delta = deltaOf(choice);
    if (delta === undefined) return undefined;
    this.#deltas++;
    this.#tokens += delta.tokenIds?.length ?? 0;
    const usage = this.#usage ?? this.#counted();
    if (usage !== undefined) delta.usage = usage;
    return delta;
  }

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  /** The last event. Throws `EngineError` when the generation is not over. */
  end(): End {
    if (this.#finish === undefined) throw cutStream(this.#worker);
    return {
      type: "end",
      finishReason: this.#finish,
      ...(this.#stopReason === undefined ? {} : { stopReason: this.#stopReason }),
      usage: this.#usage ??
        { promptTokens: 0, completionTokens: this.#deltas, cachedTokens: undefined, reported: false },
    };
  }

  /** Usage by the ids in the stream; undefined where it has none. */
  #counted(): EngineUsage | undefined {
    if (this.#promptTokens === undefined) return undefined;
    return { promptTokens: this.#promptTokens, completionTokens: this.#tokens, cachedTokens: undefined };
  }

  #finished(choice: JsonObject): void {
    const reason = choice.finish_reason;
    if (typeof reason !== "string") return;
    if (reason === "abort" || reason === "error") {
      throw givenUp(
        this.#worker,
        reason,
        isJsonObject(choice.error) ? readComplaint(choice.error) : undefined,
      );
    }
    this.#finish = finishReasonOf(reason);
    const matched = choice.stop_reason ?? choice.matched_stop;
    if (typeof matched === "string" || typeof matched === "number") this.#stopReason = matched;
  }
}

/** An engine's own word for the end of a generation, in OpenAI's words. */
export function finishReasonOf(reason: string): FinishReason {
  if (reason === "length" || reason === "tool_calls" || reason === "content_filter") return reason;
  return reason === "function_call" ? "tool_calls" : "stop";
}

/** Parses one event. Throws `EngineError` unless it is a JSON object. */
export function parseObject(data: string, worker: CalledWorker): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw invalidAnswer(worker, "an event of its stream is not JSON", cause);
  }
  if (!isJsonObject(value)) throw invalidAnswer(worker, "an event of its stream is not an object");
  return value;
}

/** OpenAI's `usage` as counted by the engine. */
export function usageOf(usage: JsonObject): EngineUsage {
  const prompt = usage.prompt_tokens_details;
  const completion = usage.completion_tokens_details;
  const cached = isJsonObject(prompt) ? prompt.cached_tokens : undefined;
  const reasoning = (isJsonObject(completion) ? completion.reasoning_tokens : undefined) ??
    usage.reasoning_tokens;
  return {
    promptTokens: count(usage.prompt_tokens),
    completionTokens: count(usage.completion_tokens),
    cachedTokens: typeof cached === "number" ? cached : undefined,
    ...(typeof reasoning === "number" ? { reasoningTokens: reasoning } : {}),
  };
}

function count(value: Json | undefined): number {
  return typeof value === "number" && value >= 0 ? value : 0;
}

const NO_CALLS: readonly JsonObject[] = [];

function deltaOf(choice: JsonObject): NewDelta | undefined {
  const chat = choice.delta ?? choice.message;
  const source = isJsonObject(chat) ? chat : choice;
  const content = source === choice ? choice.text : source.content;
  const text = typeof content === "string" ? content : "";
  const reasoning = source.reasoning_content ?? source.reasoning;
  const tokenIds = idsOf(choice.token_ids);
  const logprobs = logprobsOf(choice.logprobs, tokenIds);
  const calls = Array.isArray(source.tool_calls) ? source.tool_calls.filter(isJsonObject) : NO_CALLS;
  const hasReasoning = typeof reasoning === "string" && reasoning !== "";
  if (
    text === "" && !hasReasoning && tokenIds === undefined && logprobs === undefined && calls.length === 0
  ) {
    return undefined;
  }
  const delta: NewDelta = { type: "delta", text };
  if (hasReasoning) delta.reasoning = reasoning;
  if (tokenIds !== undefined) delta.tokenIds = tokenIds;
  if (logprobs !== undefined) delta.logprobs = logprobs;
  if (calls.length > 0) delta.toolCalls = calls;
  return delta;
}

function idsOf(value: Json | undefined): number[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  return value.filter((id) => typeof id === "number");
}

function logprobsOf(value: Json | undefined, ids: readonly number[] | undefined): TokenLogprob[] | undefined {
  if (!isJsonObject(value)) return undefined;
  const list = Array.isArray(value.content) ? chatLogprobs(value.content) : completionLogprobs(value);
  if (list.length === 0) return undefined;
  // Merged events still carry as many ids as log-probabilities; anything else cannot be matched up.
  if (ids === undefined || ids.length !== list.length) return list;
  return list.map((entry, at) => ({ ...entry, tokenId: ids[at]! }));
}

function chatLogprobs(content: readonly Json[]): TokenLogprob[] {
  return content.filter(isJsonObject).flatMap((entry) => {
    const one = tokenLogprob(entry.token, entry.logprob);
    if (one === undefined) return [];
    const top = Array.isArray(entry.top_logprobs)
      ? entry.top_logprobs.filter(isJsonObject).flatMap((item) =>
        tokenLogprob(item.token, item.logprob) ?? []
      )
      : [];
    return top.length === 0 ? [one] : [{ ...one, top }];
  });
}

function completionLogprobs(value: JsonObject): TokenLogprob[] {
  const tokens = Array.isArray(value.tokens) ? value.tokens : [];
  const logprobs = Array.isArray(value.token_logprobs) ? value.token_logprobs : [];
  const tops = Array.isArray(value.top_logprobs) ? value.top_logprobs : [];
  return tokens.flatMap((token, at) => {
    const one = tokenLogprob(token, logprobs[at]);
    if (one === undefined) return [];
    const dict = tops[at];
    const top = isJsonObject(dict)
      ? Object.entries(dict).flatMap(([name, logprob]) => tokenLogprob(name, logprob) ?? [])
      : [];
    return top.length === 0 ? [one] : [{ ...one, top }];
  });
}

function tokenLogprob(
  token: Json | undefined,
  logprob: Json | undefined,
): { token: string; logprob: number; tokenId?: number } | undefined {
  if (typeof token !== "string" || typeof logprob !== "number") return undefined;
  // vLLM's `return_tokens_as_token_ids` writes the id where the text would be.
  const id = token.startsWith("token_id:") ? Number(token.slice(9)) : NaN;
  return Number.isInteger(id) ? { token, logprob, tokenId: id } : { token, logprob };
}
