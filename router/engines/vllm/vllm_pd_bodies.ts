import { listOf } from "../openai/openai_body.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { olderThan } from "../version.ts";

/** An OpenAI-style request, as a single server would get it. */
export interface WholeRequest {
  readonly path: "/v1/completions" | "/v1/chat/completions";
  readonly body: JsonObject;
}

/**
 * Fields with which the two servers of a pair would not read the same tokens, or for which one of them would have to
 * do the whole work anyway. `/tokenize` does not know those that shape a conversation.
 */
const ALONE_FIELDS = [
  "documents",
  "echo",
  "function_call",
  "functions",
  "media_io_kwargs",
  "mm_processor_kwargs",
  "prompt_embeds",
  "prompt_logprobs",
  "reasoning_effort",
  "suffix",
  "truncate_prompt_tokens",
  "use_beam_search",
];

/** Fields that the prefill server has no use for: it samples one token, which nobody sees. */
const DECODE_FIELDS = new Set([
  "best_of",
  "guided_choice",
  "guided_grammar",
  "guided_json",
  "guided_regex",
  "include_stop_str_in_output",
  "logprobs",
  "max_completion_tokens",
  "messages",
  "min_tokens",
  "n",
  "parallel_tool_calls",
  "response_format",
  "return_token_ids",
  "return_tokens_as_token_ids",
  "stop",
  "stop_token_ids",
  "stream_options",
  "structured_outputs",
  "tool_choice",
  "tools",
  "top_logprobs",
]);

/** Fields of a conversation that `/tokenize` takes, too. */
const TEMPLATE_FIELDS = [
  "add_generation_prompt",
  "add_special_tokens",
  "chat_template",
  "chat_template_kwargs",
  "continue_final_message",
  "tools",
];

/** Asks the prefill server to keep the cache of its prompt until a decode server has fetched it. */
const KEEP_FOR_DECODE: JsonObject = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};

/** Since then a decode server's chat endpoint takes the ids of its prompt from `kv_transfer_params` (vLLM #48145). */
export function chatTakesIds(version: string | undefined): boolean {
  return version !== undefined && !olderThan(version, "0.28.0");
}

/** Reason for which the decode server has to serve a request alone, as the end of a sentence; undefined when it need not. */
export function whyAlone({ path, body }: WholeRequest): string | undefined {
  for (const field of ["n", "best_of"]) {
    const value = body[field];
    // Its sequences would share one hand-off, which serves once.
    if (typeof value === "number" && value > 1) return `\`${field}\` is ${value}`;
  }
  const field = ALONE_FIELDS.find((name) => isSet(body[name]));
  if (field !== undefined) return `it has \`${field}\``;
  if (path === "/v1/completions") return isSinglePrompt(body.prompt) ? undefined : "it has several prompts";
  // A server may be told to leave the tools out of such a prompt; `/tokenize` would not.
  if (isSet(body.tools) && body.tool_choice === "none") return "it has tools that must not be used";
  return hasOnlyText(body.messages) ? undefined : "its messages hold more than text";
}

/** Body for `/tokenize`, which applies the chat template, too. */
export function tokenizeBody({ path, body }: WholeRequest): JsonObject {
  const fields = path === "/v1/completions"
    ? ["model", "prompt", "add_special_tokens"]
    : ["model", "messages", ...TEMPLATE_FIELDS];
  const picked: JsonObject = {};
  for (const name of fields) {
    const value = body[name];
    if (value !== undefined && value !== null) picked[name] = value;
  }
  return picked;
}

/** Body of the prefill half, without its `kv_transfer_params`: what a bad request is refused for, and nothing else. */
export function prefillBody(body: JsonObject, ids: readonly number[]): JsonObject {
  const rest: JsonObject = {};
  for (const [name, value] of Object.entries(body)) {
    if (!DECODE_FIELDS.has(name) && !TEMPLATE_FIELDS.includes(name)) rest[name] = value;
  }
  // Before 0.23 a prompt whose one token ends the answer gets no parameters: `ignore_eos`.
  return { ...rest, prompt: listOf(ids), max_tokens: 1, ignore_eos: true, stream: false };
}

/** The body with the request for a hand-off. */
export function keptForDecode(body: JsonObject): JsonObject {
  return { ...body, kv_transfer_params: KEEP_FOR_DECODE };
}

/** JSON of the decode half: the body, and a prefill server's parameters as they came. */
export function withTransfer(body: JsonObject, transferJson: string): string {
  return `${JSON.stringify(body).slice(0, -1)},"kv_transfer_params":${transferJson}}`;
}

/** A prefill server's parameters with the ids of the prompt beside them. */
export function withIds(transferJson: string, ids: readonly number[]): string {
  const inside = transferJson.slice(1, -1).trim();
  return `{${inside}${inside === "" ? "" : ","}"prompt_token_ids":[${ids.join(",")}]}`;
}

/** True for a list of numbers. */
export function isIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((id) => Number.isInteger(id));
}

function isSinglePrompt(prompt: Json | undefined): boolean {
  return typeof prompt === "string" || isIds(prompt);
}

function hasOnlyText(messages: Json | undefined): boolean {
  return Array.isArray(messages) && messages.every((message) => {
    if (!isJsonObject(message)) return false;
    const { content } = message;
    return !Array.isArray(content) || content.every((part) => isJsonObject(part) && part.type === "text");
  });
}

function isSet(value: Json | undefined): boolean {
  return value !== undefined && value !== null && value !== false;
}
