import { int64Json } from "../../../base/int64.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import type { GenerateRequest, Prompt, Sampling } from "../engine.ts";

/** Fields that a `GenerateRequest` decides itself: they are not taken from `sampling.extra`. */
const OWN_FIELDS = new Set([
  "model",
  "prompt",
  "messages",
  "text",
  "input_ids",
  "input_embeds",
  "stream",
  "stream_options",
  "n",
  "best_of",
  "echo",
  "logprobs",
  "top_logprobs",
  "request_id",
  "rid",
  "bootstrap_host",
  "bootstrap_port",
  "bootstrap_room",
  "kv_transfer_params",
]);

/** Points on which OpenAI-compatible servers disagree. */
export interface Dialect {
  /** Name of the limit on generated tokens at chat endpoints. */
  readonly chatMaxTokens: "max_tokens" | "max_completion_tokens";
  /** Whether usage may be asked for in streams. */
  readonly streamOptions: boolean;
  /** Whether it is asked for in every event: vLLM and SGLang give it, others may refuse the question. */
  readonly continuousUsage: boolean;
}

export const COMMON_DIALECT: Dialect = {
  chatMaxTokens: "max_tokens",
  streamOptions: true,
  continuousUsage: false,
};

/** The parameters that go to the engine as they are. */
export function extraOf(sampling: Sampling): JsonObject {
  const extra: JsonObject = {};
  for (const [name, value] of Object.entries(sampling.extra ?? {})) {
    if (!OWN_FIELDS.has(name)) extra[name] = value;
  }
  return extra;
}

/** Sampling parameters in OpenAI's names, without the limit on tokens. */
function samplingFields(sampling: Sampling): JsonObject {
  const { temperature, top_p, top_k, min_p, seed, stop } = sampling;
  const { frequency_penalty, presence_penalty, repetition_penalty } = sampling;
  return given({
    temperature,
    top_p,
    top_k,
    min_p,
    frequency_penalty,
    presence_penalty,
    repetition_penalty,
    seed: seed === undefined ? undefined : int64Json(seed),
    stop: stop === undefined || stop.length === 0 ? undefined : [...stop],
  });
}

/** Body of a streamed `/v1/completions` or `/v1/chat/completions` call, after the kind of its prompt. */
export function openAiBody(
  model: string,
  request: GenerateRequest,
  dialect: Dialect = COMMON_DIALECT,
): { readonly path: "/v1/completions" | "/v1/chat/completions"; readonly body: JsonObject } {
  const { prompt, sampling, logprobs } = request;
  const chat = prompt.kind === "chat";
  const body: JsonObject = {
    ...extraOf(sampling),
    model,
    ...promptField(prompt),
    ...samplingFields(sampling),
    stream: true,
  };
  if (sampling.max_tokens !== undefined) {
    body[chat ? dialect.chatMaxTokens : "max_tokens"] = sampling.max_tokens;
  }
  if (dialect.streamOptions) {
    body.stream_options = {
      include_usage: true,
      ...(dialect.continuousUsage ? { continuous_usage_stats: true } : {}),
    };
  }
  if (logprobs !== undefined) {
    if (chat) {
      body.logprobs = true;
      body.top_logprobs = logprobs;
    } else body.logprobs = logprobs;
  }
  return { path: chat ? "/v1/chat/completions" : "/v1/completions", body };
}

/**
 * Tokens left in the context after a prompt of ids: what a chat endpoint would allow when no limit is given, where
 * raw ones stop after 16 or 128. Undefined where the prompt's length or the context's is unknown.
 */
export function roomFor(prompt: Prompt, contextTokens: number | undefined): number | undefined {
  if (prompt.kind !== "tokens" || contextTokens === undefined) return undefined;
  return Math.max(1, contextTokens - prompt.ids.length - 1);
}

function promptField(prompt: Prompt): JsonObject {
  if (prompt.kind === "chat") return { messages: [...prompt.messages] };
  return { prompt: prompt.kind === "text" ? prompt.text : listOf(prompt.ids) };
}

/** Token ids in a body, which nobody changes there: of millions a copy takes long. */
export function listOf(ids: readonly number[]): number[] {
  return ids as number[];
}

/** The object without its undefined fields. */
export function given(fields: Record<string, Json | undefined>): JsonObject {
  const result: JsonObject = {};
  for (const name in fields) {
    const value = fields[name];
    if (value !== undefined) result[name] = value;
  }
  return result;
}
