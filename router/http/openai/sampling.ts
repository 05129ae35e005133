import { badRequest } from "../../../base/errors.ts";
import { readInt64 } from "../../../base/int64.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { Sampling } from "../../engines/engine.ts";
import { BOOTSTRAP_MEMBERS } from "../../engines/guards/sglang_guards.ts";
import { isSet, shown } from "../gate/fields.ts";
import type { CommonRequest } from "./request_schema.ts";

/** Read elsewhere, or by `readSampling` itself. */
const HANDLED = new Set([
  ...["model", "messages", "prompt", "stream", "stream_options", "n", "best_of", "suffix", "echo", "canopy"],
  ...["logprobs", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls", "response_format"],
  ...["max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "frequency_penalty"],
  ...["presence_penalty", "repetition_penalty", "seed", "stop"],
]);

/** Book-keeping of OpenAI's own service: accepted, without effect. */
const IGNORED = new Set([
  ...["user", "metadata", "store", "service_tier", "safety_identifier", "prediction"],
  ...["prompt_cache_key", "prompt_cache_retention"],
]);

const INTERNAL = "it belongs to one engine call, and a virtual model makes many";
const OTHER_ANSWER = "a virtual model's answer has no place for what it asks";
const OTHER_PROMPT = "the root's prompt is built by the router";

/** Fields that a virtual model cannot honour, with the reason. `null` and `false` ask for nothing and pass. */
const REFUSED: ReadonlyMap<string, string> = new Map([
  ...because(INTERNAL, ["rid", "request_id", "session_params", "kv_transfer_params", "ec_transfer_params"]),
  ...because(INTERNAL, BOOTSTRAP_MEMBERS),
  ...because(INTERNAL, ["data_parallel_rank", "sampling_params"]),
  ...because(OTHER_ANSWER, ["prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids"]),
  ...because(OTHER_ANSWER, ["return_hidden_states", "return_routed_experts", "return_logprob"]),
  ...because(OTHER_ANSWER, ["top_logprobs_num", "token_ids_logprob", "logprob_start_len"]),
  ...because(OTHER_ANSWER, ["return_text_in_logprobs", "return_meta_info", "use_beam_search"]),
  ...because(OTHER_ANSWER, ["audio", "web_search_options"]),
  ...because(OTHER_PROMPT, ["text", "input_ids", "input_embeds", "prompt_embeds", "prompt_token_ids"]),
  ...because(OTHER_PROMPT, [
    "truncate_prompt_tokens",
    "continue_final_message",
    "chat_template",
    "documents",
  ]),
  ...because("send tools and tool_choice instead", ["functions", "function_call"]),
]);

function because(reason: string, names: readonly string[]): [string, string][] {
  return names.map((name) => [name, reason]);
}

/** A field that is passed on must reach the engine with the client's value. */
function refuseInexact(name: string, value: Json): void {
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw badRequest(
      name,
      `${name} must lie between -2^53 and 2^53 for a virtual model: larger integers are not carried exactly`,
    );
  }
}

/**
 * The client's sampling parameters for the root. Fields that nobody here knows go to the root's engine as they are
 * (`extra`). Throws 400 naming a field that a virtual model cannot honour.
 */
export function readSampling(request: CommonRequest, body: JsonObject): Sampling {
  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? undefined;
  const stop = typeof request.stop === "string" ? [request.stop] : request.stop ?? undefined;
  const extra = readExtra(request, body);
  return {
    ...ifSet("max_tokens", maxTokens),
    ...ifSet("temperature", request.temperature),
    ...ifSet("top_p", request.top_p),
    ...ifSet("top_k", request.top_k),
    ...ifSet("min_p", request.min_p),
    ...ifSet("frequency_penalty", request.frequency_penalty),
    ...ifSet("presence_penalty", request.presence_penalty),
    ...ifSet("repetition_penalty", request.repetition_penalty),
    ...ifSet("seed", readInt64(request.seed)),
    ...ifSet("stop", stop === undefined || stop.length === 0 ? undefined : stop),
    ...ifSet("extra", Object.keys(extra).length === 0 ? undefined : extra),
  };
}

function readExtra(request: CommonRequest, body: JsonObject): JsonObject {
  const entries: [string, Json][] = [];
  for (const [name, value] of Object.entries(body)) {
    if (value === null || IGNORED.has(name) || HANDLED.has(name)) continue;
    const reason = REFUSED.get(name);
    if (reason !== undefined) {
      if (value === false) continue;
      throw badRequest(
        name,
        `${name} is not supported by virtual models: ${reason}`,
        "unsupported_parameter",
      );
    }
    refuseInexact(name, value);
    entries.push([name, value]);
  }
  refuseUnlessPlain(body);
  for (const [name, value] of Object.entries(toolFields(request, body))) entries.push([name, value]);
  if (isSet(request.response_format) && request.response_format.type !== "text") {
    entries.push(["response_format", responseFormat(request, body)]);
  }
  // Not by assignment: a field named `__proto__` must stay a field.
  return Object.fromEntries(entries);
}

/** Tools reach the root only; without tools there is nothing to choose from. */
function toolFields(request: CommonRequest, body: JsonObject): JsonObject {
  const choice = request.tool_choice;
  if (!isSet(request.tools) || request.tools.length === 0) {
    if (isSet(choice) && choice !== "none" && choice !== "auto") {
      throw badRequest(
        "tool_choice",
        `tool_choice needs tools: current value is ${shown(choice)}, tools is empty`,
      );
    }
    return {};
  }
  checkTools(request.tools, choice);
  return Object.fromEntries(
    ["tools", "tool_choice", "parallel_tool_calls"].flatMap((name): [string, Json][] => {
      const value = body[name];
      return value === undefined || value === null ? [] : [[name, value]];
    }),
  );
}

/** What the root's engine would refuse once all others have answered. */
function checkTools(
  tools: NonNullable<CommonRequest["tools"]>,
  choice: CommonRequest["tool_choice"],
): void {
  const bare = tools.findIndex((tool) => tool.type === "function" && !isSet(tool.function));
  if (bare !== -1) {
    const param = `tools[${bare}].function`;
    throw badRequest(param, `${param} is required with type function`, "missing_field");
  }
  if (typeof choice !== "object" || choice?.type !== "function") return;
  const named = isJsonObject(choice.function) ? choice.function.name : undefined;
  const names = tools.flatMap((tool) => isSet(tool.function) ? [tool.function.name] : []);
  if (typeof named !== "string" || !names.includes(named)) {
    throw badRequest(
      "tool_choice.function.name",
      `tool_choice.function.name must be one of tools (${names.join(", ")}): current value is ${
        shown(named)
      }`,
    );
  }
}

function responseFormat(request: CommonRequest, body: JsonObject): Json {
  if (request.response_format?.type === "json_schema" && !isSet(request.response_format.json_schema)) {
    throw badRequest(
      "response_format.json_schema",
      "response_format.json_schema is required with type json_schema",
    );
  }
  return body["response_format"] ?? null;
}

/** Fields that are fine with their usual value only. */
function refuseUnlessPlain(body: JsonObject): void {
  const modalities = body["modalities"];
  if (isSet(modalities) && JSON.stringify(modalities) !== '["text"]') {
    throw badRequest("modalities", 'modalities must be ["text"]: virtual models answer with text only');
  }
  if (body["add_generation_prompt"] === false) {
    throw badRequest("add_generation_prompt", `add_generation_prompt must not be false: ${OTHER_PROMPT}`);
  }
}

/** `{name: value}`, or nothing when the value is not set. */
function ifSet<Name extends string, Value>(
  name: Name,
  value: Value | null | undefined,
): {
  [K in Name]?: Value;
} {
  const fields: {
    [K in Name]?: Value;
  } = {};
  if (isSet(value)) fields[name] = value;
  return fields;
}
