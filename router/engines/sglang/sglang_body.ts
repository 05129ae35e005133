import { badRequest } from "../../../base/errors.ts";
import { int64Json } from "../../../base/int64.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { GenerateRequest, Prompt, Sampling } from "../engine.ts";
import { extraOf, given, listOf, roomFor } from "../openai/openai_body.ts";

/** Sampling parameters of `/generate` that keep their name; an unknown one in there is a bare 500. */
const SAMPLING_KEYS = new Set([
  "stop_token_ids",
  "stop_regex",
  "ignore_eos",
  "skip_special_tokens",
  "spaces_between_special_tokens",
  "no_stop_trim",
  "logit_bias",
  "json_schema",
  "regex",
  "ebnf",
  "structural_tag",
  "custom_params",
]);

/** Body of a streamed `/generate` call. `contextTokens`: longest prompt plus answer, if known. */
export function sglangBody(
  request: GenerateRequest & { readonly prompt: Exclude<Prompt, { kind: "chat" }> },
  rid: string,
  contextTokens: number | undefined,
): JsonObject {
  const { prompt, sampling, logprobs } = request;
  const { sampling_params, ...rest } = splitExtra(sampling);
  const body: JsonObject = {
    ...rest,
    ...(prompt.kind === "tokens" ? { input_ids: listOf(prompt.ids) } : { text: prompt.text }),
    rid,
    sampling_params: { ...sampling_params, ...samplingParams(sampling, prompt, contextTokens) },
    stream: true,
  };
  if (logprobs !== undefined) {
    body.return_logprob = true;
    body.return_text_in_logprobs = true;
    if (logprobs > 0) body.top_logprobs_num = logprobs;
  }
  return body;
}

function samplingParams(
  sampling: Sampling,
  prompt: Exclude<Prompt, { kind: "chat" }>,
  contextTokens: number | undefined,
): JsonObject {
  const { temperature, top_p, top_k, min_p, seed, stop } = sampling;
  const { frequency_penalty, presence_penalty, repetition_penalty } = sampling;
  return given({
    max_new_tokens: sampling.max_tokens ?? roomFor(prompt, contextTokens),
    temperature,
    top_p,
    top_k: top_k === 0 ? -1 : top_k,
    min_p,
    frequency_penalty,
    presence_penalty,
    repetition_penalty,
    sampling_seed: seed === undefined ? undefined : int64Json(seed),
    stop: stop === undefined || stop.length === 0 ? undefined : [...stop],
  });
}

function splitExtra(sampling: Sampling): JsonObject & { sampling_params: JsonObject } {
  const inside: JsonObject = {};
  const outside: JsonObject = {};
  for (const [name, value] of Object.entries(extraOf(sampling))) {
    if (name === "min_tokens") inside.min_new_tokens = value;
    else if (name === "response_format") Object.assign(inside, grammarOf(value));
    else if (SAMPLING_KEYS.has(name)) inside[name] = value;
    else outside[name] = value;
  }
  return { ...outside, sampling_params: inside };
}

/** OpenAI's `response_format` as SGLang's `json_schema`. */
function grammarOf(format: Json): JsonObject {
  if (!isJsonObject(format) || format.type === "text") return {};
  if (format.type === "json_object") return { json_schema: '{"type": "object"}' };
  const wrapped = format.json_schema;
  if (format.type === "json_schema" && isJsonObject(wrapped)) {
    const schema = wrapped.schema;
    if (schema !== undefined) return { json_schema: JSON.stringify(schema) };
  }
  if (format.type === "structural_tag") return { structural_tag: JSON.stringify(format) };
  throw badRequest("response_format", "`response_format` must be of type text, json_object or json_schema");
}
