import { z } from "zod";
import { isJsonObject, type Json } from "../../base/json.ts";

/** vLLM's own limits. */
const MAX_LOGPROBS = 20;
const MAX_CHOICES = 128;

const count = z.int().min(0);
const flag = z.boolean().default(false);

/** The fields that completions and chats share; null counts as absent, and unknown fields are let be. */
export const common = z.looseObject({
  model: z.string().optional(),
  n: z.int().min(1).max(MAX_CHOICES).default(1),
  best_of: z.literal(1, { error: "must be 1: only one answer is made of each" }).optional(),
  max_tokens: z.int().min(1).optional(),
  min_tokens: count.default(0),
  temperature: z.number().min(0).optional(),
  top_p: z.number().gt(0).max(1).optional(),
  top_k: z.int().min(-1).optional(),
  min_p: z.number().min(0).max(1).optional(),
  repetition_penalty: z.number().gt(0).optional(),
  presence_penalty: z.number().min(-2).max(2).default(0),
  frequency_penalty: z.number().min(-2).max(2).default(0),
  logit_bias: z.record(z.string().regex(/^\d+$/), z.number()).default({}),
  seed: z.int().optional(),
  stop: z.union([z.string(), z.array(z.string())]).default([]),
  stop_token_ids: z.array(count).default([]),
  ignore_eos: flag,
  include_stop_str_in_output: flag,
  skip_special_tokens: z.boolean().default(true),
  stream: flag,
  stream_options: z.looseObject({ include_usage: flag, continuous_usage_stats: flag }).optional(),
  return_token_ids: flag,
  return_tokens_as_token_ids: flag,
  truncate_prompt_tokens: z.int().min(-1).optional(),
});

/** `POST /v1/completions`. */
export const embeddedCompletionSchema = common.extend({
  prompt: z.union([z.string(), z.array(z.string()), z.array(count), z.array(z.array(count))]),
  echo: flag,
  logprobs: count.max(MAX_LOGPROBS).optional(),
});

/** `POST /v1/chat/completions`. */
export const chatSchema = common.extend({
  messages: z.array(z.looseObject({ role: z.string() })).min(1),
  max_completion_tokens: z.int().min(1).optional(),
  logprobs: flag,
  top_logprobs: count.max(MAX_LOGPROBS).optional(),
  add_generation_prompt: z.boolean().default(true),
  continue_final_message: flag,
  chat_template_kwargs: z.record(z.string(), z.json()).default({}),
});

/** `POST /tokenize`. */
export const tokenizeSchema = z.looseObject({
  model: z.string().optional(),
  prompt: z.string().optional(),
  messages: chatSchema.shape.messages.optional(),
  add_generation_prompt: z.boolean().default(true),
  continue_final_message: flag,
  chat_template_kwargs: z.record(z.string(), z.json()).default({}),
  return_token_strs: flag,
});

/** `POST /detokenize`. */
export const detokenizeSchema = z.looseObject({ model: z.string().optional(), tokens: z.array(count) });

/** What changes the answer in ways that are not made here; `false`, `null` and what is listed are harmless. */
export const UNSUPPORTED: Readonly<Record<string, (value: Json) => boolean>> = {
  response_format: (value) => isJsonObject(value) && value["type"] === "text",
  structured_outputs: () => false,
  guided_json: () => false,
  guided_regex: () => false,
  guided_choice: () => false,
  guided_grammar: () => false,
  tools: (value) => Array.isArray(value) && value.length === 0,
  functions: (value) => Array.isArray(value) && value.length === 0,
  chat_template: () => false,
  use_beam_search: () => false,
  prompt_logprobs: () => false,
  prompt_embeds: () => false,
  suffix: (value) => value === "",
  allowed_token_ids: () => false,
  bad_words: (value) => Array.isArray(value) && value.length === 0,
  kv_transfer_params: () => false,
};
