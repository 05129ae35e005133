import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { Backend, Generation } from "../server/backend.ts";
import { flag, type ServedRequest } from "../server/reply.ts";
import {
  refuse,
  refuseVllmSchema,
  type SchemaError,
  shownInput,
  unknownModel,
  unsupportedMediaType,
} from "./errors.ts";

/** vLLM's own limit (`VLLM_MAX_STOP_STRINGS`). */
const MAX_STOP_STRINGS = 4;
/** vLLM's own limit (`VLLM_MAX_N_SEQUENCES`). */
const MAX_CHOICES = 16_384;

/** The sampling part of a request, checked. */
export interface VllmSampling {
  readonly n: number;
  readonly seed: number | undefined;
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
  readonly minTokens: number;
  readonly ignoreEnd: boolean;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly includeStop: boolean;
  readonly skipSpecialTokens: boolean;
  readonly salt: string;
  readonly logitBias: JsonObject | undefined;
  readonly forcedText: string | undefined;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  /** Tokens per event after the first. */
  readonly streamInterval: number;
  readonly returnTokenIds: boolean;
  readonly tokensAsIds: boolean;
  /** Keep only so many tokens at the end of the prompt; -1: as many as fit. */
  readonly truncate: number | undefined;
}

/** Parses the body. Throws the 400s of a wrong content type or broken JSON. */
export function parseVllmBody(request: ServedRequest): JsonObject {
  if (request.text === "" || !(request.headers["content-type"] ?? "").startsWith("application/json")) {
    throw unsupportedMediaType();
  }
  let body: Json;
  try {
    body = JSON.parse(request.text);
  } catch {
    const loc = `body.${request.text.length}`;
    throw refuseVllmSchema([{
      type: "json_invalid",
      loc,
      msg: "JSON decode error",
      input: "<dict of 0 items>",
      ctx: "{'error': 'Expecting value'}",
    }]);
  }
  if (isJsonObject(body)) return body;
  throw refuseVllmSchema([{
    type: "model_attributes_type",
    loc: "body",
    msg: "Input should be a valid dictionary or object to extract fields from",
    input: shownInput(body),
  }]);
}

/** The served name that a request means. Throws the 404 of another one. */
export function modelOf(body: JsonObject, backend: Backend): string {
  const model = body["model"] ?? null;
  if (model === null) return backend.model;
  if (typeof model !== "string") {
    throw refuseVllmSchema([wrongType("model", model, "string_type", "Input should be a valid string")]);
  }
  if (!backend.options.models.includes(model)) throw unknownModel(model, backend.options.models);
  return model;
}

/** Checks the fields that completions and chats share. Throws 400s with vLLM's texts. */
export function vllmSampling(body: JsonObject): VllmSampling {
  const stream = flag(body, "stream");
  const streamOptions = body["stream_options"] ?? null;
  if (streamOptions !== null && !stream) {
    throw refuse("Stream options can only be defined when `stream=True`.", "stream_options");
  }
  const usage = isJsonObject(streamOptions) ? streamOptions : {};
  const choices = isJsonObject(body["structured_outputs"]) ? body["structured_outputs"]["choice"] : undefined;
  const forced = Array.isArray(choices) ? choices[0] : undefined;
  return {
    n: integer(body, "n") ?? 1,
    seed: integer(body, "seed"),
    temperature: decimal(body, "temperature"),
    maxTokens: integer(body, "max_completion_tokens") ?? integer(body, "max_tokens"),
    minTokens: integer(body, "min_tokens") ?? 0,
    ignoreEnd: flag(body, "ignore_eos"),
    stop: checkedStops(body),
    stopTokenIds: integers(body, "stop_token_ids"),
    includeStop: flag(body, "include_stop_str_in_output"),
    skipSpecialTokens: body["skip_special_tokens"] !== false,
    salt: typeof body["cache_salt"] === "string" ? body["cache_salt"] : "",
    logitBias: isJsonObject(body["logit_bias"]) ? body["logit_bias"] : undefined,
    forcedText: typeof forced === "string" ? forced : undefined,
    stream,
    includeUsage: flag(usage, "include_usage"),
    continuousUsage: flag(usage, "include_usage") && flag(usage, "continuous_usage_stats"),
    streamInterval: Math.max(1, integer(body, "stream_interval") ?? 1),
    returnTokenIds: flag(body, "return_token_ids"),
    tokensAsIds: flag(body, "return_tokens_as_token_ids"),
    truncate: integer(body, "truncate_prompt_tokens"),
  };
}

/** Cuts the prompt as asked, and throws the 400s of a prompt that does not fit or has foreign ids. */
export function checkedPrompt(
  prompt: readonly number[],
  fromText: boolean,
  sampling: VllmSampling,
  backend: Backend,
): readonly number[] {
  const { contextTokens } = backend;
  let ids = prompt;
  if (sampling.truncate !== undefined) {
    ids = ids.slice(-(sampling.truncate < 0 ? contextTokens - 1 : sampling.truncate));
  }
  const foreign = ids.find((id) => id >= backend.tokenizer.vocabSize);
  if (foreign !== undefined) throw refuse(`Token id ${foreign} is out of vocabulary`);
  if (ids.length > contextTokens) {
    const count = fromText ? `at least ${contextTokens + 1}` : String(ids.length);
    throw refuse(
      `This model's maximum context length is ${contextTokens} tokens. However, your prompt contains ${count} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.`,
      "input_tokens",
      fromText ? String(contextTokens + 1) : String(ids.length),
    );
  }
  return ids;
}

/** The output budget of one answer. Throws the 400s of sampling parameters that contradict each other. */
export function outputBudget(
  sampling: VllmSampling,
  wanted: number | undefined,
  promptTokens: number,
  logprobs: number | undefined,
  backend: Backend,
): number {
  const { temperature, minTokens, n } = sampling;
  if (temperature !== undefined && temperature < 0) {
    const shown = pythonFloat(temperature);
    throw refuse(`temperature must be non-negative, got ${shown}.`, "temperature", shown);
  }
  const maxTokens = Math.min(wanted ?? Infinity, backend.contextTokens - promptTokens);
  if (maxTokens < 1) {
    throw refuse(`max_tokens must be at least 1, got ${maxTokens}.`, "max_tokens", String(maxTokens));
  }
  if (minTokens > maxTokens) {
    throw refuse(`min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`);
  }
  if (n > MAX_CHOICES) throw refuse(`n must be at most ${MAX_CHOICES}, got ${n}.`, "n", String(n));
  if (n < 1) throw refuse(`n must be at least 1, got ${n}.`, "n", String(n));
  if (n > 1 && temperature === 0) throw refuse(`n must be 1 when using greedy sampling, got ${n}.`);
  if (logprobs !== undefined && logprobs > 20) {
    throw refuse(
      `Requested sample logprobs of ${logprobs}, which is greater than max allowed: 20`,
      "logprobs",
      String(logprobs),
    );
  }
  return maxTokens;
}

/** A completion's prompts, as ids. Throws the 400s of a missing or malformed prompt. */
export function promptsOf(
  body: JsonObject,
  backend: Backend,
): { ids: readonly number[]; fromText: boolean }[] {
  const prompt = body["prompt"] ?? null;
  if (prompt === null || prompt === "") {
    throw refuse("Either prompt or prompt_embeds must be provided and non-empty.", "prompt");
  }
  if (typeof prompt === "string") return [{ ids: backend.tokenizer.encode(prompt), fromText: true }];
  if (!Array.isArray(prompt)) {
    throw refuseVllmSchema([wrongType("prompt", prompt, "string_type", "Input should be a valid string")]);
  }
  if (prompt.length === 0) throw refuse("You must pass at least one prompt");
  if (prompt.some((part) => part === "" || (Array.isArray(part) && part.length === 0))) {
    throw refuse("The decoder prompt cannot be empty");
  }
  if (prompt.every((part) => typeof part === "string")) {
    return prompt.map((text) => ({ ids: backend.tokenizer.encode(text), fromText: true }));
  }
  const single = idList(prompt);
  if (single !== undefined) return [{ ids: single, fromText: false }];
  const lists = prompt.map((part) => Array.isArray(part) ? idList(part) : undefined);
  const ids = lists.flatMap((list) => list === undefined ? [] : [{ ids: list, fromText: false }]);
  if (ids.length === prompt.length) return ids;
  throw refuseVllmSchema(promptErrors(prompt));
}

/** An integer field. Throws a schema 400 for anything else. */
export function integer(body: JsonObject, name: string): number | undefined {
  const value = body[name] ?? null;
  if (value === null) return undefined;
  const parsed = typeof value === "string" && /^[+-]?\d+$/.test(value) ? Number(value) : value;
  if (typeof parsed === "number" && Number.isInteger(parsed)) return parsed;
  throw refuseVllmSchema([
    typeof value === "string"
      ? wrongType(
        name,
        value,
        "int_parsing",
        "Input should be a valid integer, unable to parse string as an integer",
      )
      : wrongType(name, value, "int_type", "Input should be a valid integer"),
  ]);
}

function decimal(body: JsonObject, name: string): number | undefined {
  const value = body[name] ?? null;
  if (value === null) return undefined;
  const parsed = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof parsed === "number" && !Number.isNaN(parsed)) return parsed;
  throw refuseVllmSchema([
    typeof value === "string"
      ? wrongType(
        name,
        value,
        "float_parsing",
        "Input should be a valid number, unable to parse string as a number",
      )
      : wrongType(name, value, "float_type", "Input should be a valid number"),
  ]);
}

function strings(body: JsonObject, name: string): string[] {
  const value = body[name] ?? null;
  if (value === null) return [];
  const list = Array.isArray(value) ? value : [value];
  return list.map((item, index) => {
    if (typeof item === "string") return item;
    throw refuseVllmSchema([
      wrongType(`${name}.${index}`, item, "string_type", "Input should be a valid string"),
    ]);
  }).filter((item) => item !== "");
}

/** Up to four stop strings, from 0.32 on. */
function checkedStops(body: JsonObject): string[] {
  const { stop } = body;
  if (Array.isArray(stop) && stop.length > MAX_STOP_STRINGS) {
    const msg = `List should have at most ${MAX_STOP_STRINGS} items after validation, not ${stop.length}`;
    const ctx = `{'field_type': 'List', 'max_length': ${MAX_STOP_STRINGS}, 'actual_length': ${stop.length}}`;
    throw refuseVllmSchema([{ ...wrongType("stop", stop, "too_long", msg), ctx }]);
  }
  return strings(body, "stop");
}

/** `kv_transfer_params` of a request, as an answer's part. */
export function requestedTransfer(body: JsonObject, id: string): Generation["transfer"] {
  const params = body["kv_transfer_params"] ?? null;
  return isJsonObject(params) ? { params, id } : undefined;
}

function integers(body: JsonObject, name: string): number[] {
  const value = body[name] ?? null;
  if (value === null) return [];
  if (Array.isArray(value)) {
    const list = value.filter((item) => typeof item === "number");
    if (list.length === value.length) return list;
  }
  throw refuseVllmSchema([wrongType(name, value, "list_type", "Input should be a valid list")]);
}

function idList(list: readonly Json[]): number[] | undefined {
  const ids = list.filter((id) => typeof id === "number" && Number.isInteger(id) && id >= 0);
  return ids.length === list.length && ids.length > 0 ? ids.map(Number) : undefined;
}

function promptErrors(prompt: readonly Json[]): SchemaError[] {
  const errors: SchemaError[] = [];
  for (const [i, id] of prompt.entries()) {
    if (typeof id === "number" && id < 0) {
      errors.push({
        type: "greater_than_equal",
        loc: `body.prompt.${i}`,
        msg: "Input should be greater than or equal to 0",
        input: shownInput(id),
        ctx: "{'ge': 0}",
      });
    }
  }
  for (const [i, id] of prompt.entries()) {
    if (!Array.isArray(id)) {
      errors.push(wrongType(`prompt.${i}`, id, "list_type", "Input should be a valid list"));
    }
  }
  errors.push(wrongType("prompt", [...prompt], "string_type", "Input should be a valid string"));
  for (const [i, id] of prompt.entries()) {
    if (typeof id !== "string") {
      errors.push(wrongType(`prompt.${i}`, id, "string_type", "Input should be a valid string"));
    }
  }
  return errors;
}

/** One schema complaint about a field of the body. */
export function wrongType(field: string, value: Json, type: string, msg: string): SchemaError {
  return { type, loc: `body.${field}`, msg, input: shownInput(value) };
}

function pythonFloat(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}
