import type { JsonObject } from "../../../base/json.ts";
import type { Prompt, Sampling, WarmResult } from "../engine.ts";

/** Parameters that decide in which of a server's prefix caches a prompt is looked for. */
const CACHE_FIELDS = ["cache_salt", "extra_key", "lora_path", "add_special_tokens"];

/** Parameters that decide how a conversation is written down, which a prefix of it must share, too. */
const TEMPLATE_FIELDS = [
  "add_generation_prompt",
  "chat_template",
  "chat_template_kwargs",
  "continue_final_message",
  "documents",
  "functions",
  "mm_processor_kwargs",
  "reasoning_effort",
  "tool_choice",
  "tools",
];

/** The result of a warm that would not fill a single block: nothing is sent. */
export const NOTHING_WARMED: WarmResult = { promptTokens: 0, cachedTokens: 0 };

/**
 * The part of a prefix that a prefix cache can keep: token ids are cut to whole blocks, because the tokens of an
 * incomplete block are computed and thrown away. Undefined when there is no whole block.
 */
export function wholeBlocks(prefix: Prompt, blockTokens: number | undefined): Prompt | undefined {
  if (prefix.kind !== "tokens") return prefix;
  const block = blockTokens ?? 1;
  const tokens = Math.floor(prefix.ids.length / block) * block;
  if (tokens === 0) return undefined;
  return tokens === prefix.ids.length ? prefix : { kind: "tokens", ids: prefix.ids.slice(0, tokens) };
}

/**
 * Of the parameters of the request to come, those that a warm must share. The others stay out of it: several of them
 * (`prompt_logprobs`, `echo`) keep an engine from reading its prefix cache, and none of them changes a prefix.
 */
export function sharedFields(kind: Prompt["kind"], like: Sampling | undefined): JsonObject {
  const shared: JsonObject = {};
  for (const name of kind === "chat" ? [...CACHE_FIELDS, ...TEMPLATE_FIELDS] : CACHE_FIELDS) {
    const value = like?.extra?.[name];
    if (value !== undefined) shared[name] = value;
  }
  return shared;
}
