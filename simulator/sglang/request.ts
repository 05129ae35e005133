import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import type { Backend } from "../server/backend.ts";
import { flag, pythonRepr, type ServedRequest } from "../server/reply.ts";
import { GenerateRefusal, refuseSglangSchema } from "./errors.ts";

/** Everything that `sampling_params` may hold; other keys make the server fail. */
const SAMPLING_KEYS = new Set([
  "max_new_tokens",
  "min_new_tokens",
  "stop",
  "stop_token_ids",
  "stop_regex",
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "frequency_penalty",
  "presence_penalty",
  "repetition_penalty",
  "n",
  "json_schema",
  "regex",
  "ebnf",
  "structural_tag",
  "ignore_eos",
  "skip_special_tokens",
  "spaces_between_special_tokens",
  "no_stop_trim",
  "stream_interval",
  "logit_bias",
  "sampling_seed",
  "custom_params",
]);

/** The default of `max_new_tokens` on `/generate`. */
const DEFAULT_NEW_TOKENS = 128;

/** `sampling_params`, checked. */
export interface SglangSampling {
  readonly n: number;
  /** Undefined: until the context is full. */
  readonly maxTokens: number | undefined;
  readonly minTokens: number;
  readonly temperature: number | undefined;
  readonly seed: number | undefined;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly ignoreEnd: boolean;
  readonly skipSpecialTokens: boolean;
  readonly includeStop: boolean;
  readonly logitBias: JsonObject | undefined;
  readonly forcedText: string | undefined;
}

/** Parses the body of a POST. Throws the schema's 400s. */
export function parseSglangBody(request: ServedRequest): JsonObject {
  const { path, text } = request;
  if (!(request.headers["content-type"] ?? "application/json").includes("json")) {
    throw refuseSglangSchema(path, [
      `{'type': 'dataclass_type', 'loc': ('body',), 'msg': 'Input should be a dictionary or an instance of GenerateReqInput', 'input': b${
        pythonRepr(text)
      }, 'ctx': {'class_name': 'GenerateReqInput'}}`,
    ]);
  }
  let body: Json;
  try {
    body = JSON.parse(text === "" ? "{}" : text);
  } catch {
    throw refuseSglangSchema(path, [
      `{'type': 'json_invalid', 'loc': ('body', ${text.length}), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': 'unexpected end of data'}}`,
    ]);
  }
  if (isJsonObject(body)) return body;
  throw refuseSglangSchema(path, [
    `{'type': 'dict_type', 'loc': ('body',), 'msg': 'Input should be a valid dictionary', 'input': ${
      pythonRepr(body)
    }}`,
  ]);
}

/** Checks the types that `/generate`'s schema knows. Throws 400s. */
export function checkGenerateSchema(body: JsonObject, version: string): void {
  const { bootstrap_room: room } = body;
  if (typeof room === "string" && !/^-?\d+$/.test(room)) {
    const item = versionNumber(version) >= SGLANG.sparseShapes ? "nullable[int]" : "int";
    throw refuseSglangSchema("/generate", [
      `{'type': 'list_type', 'loc': ('body', 'bootstrap_room', 'list[${item}]'), 'msg': 'Input should be a valid list', 'input': ${
        pythonRepr(room)
      }}`,
      `{'type': 'int_parsing', 'loc': ('body', 'bootstrap_room', 'int'), 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': ${
        pythonRepr(room)
      }}`,
    ]);
  }
  const { text, input_ids: ids, sampling_params: sampling } = body;
  if (ids !== undefined && ids !== null && !Array.isArray(ids)) {
    const problem = `must be list or null; got ${pythonType(ids)}`;
    throw refuseSglangSchema("/generate", [
      `{'type': 'value_error', 'loc': ('body', 'input_ids'), 'msg': 'Value error, ${problem}', 'input': ${
        pythonRepr(ids)
      }, 'ctx': {'error': ValueError('${problem}')}}`,
    ]);
  }
  if (text !== undefined && text !== null && typeof text !== "string" && !Array.isArray(text)) {
    throw refuseSglangSchema("/generate", [
      `{'type': 'string_type', 'loc': ('body', 'text', 'str'), 'msg': 'Input should be a valid string', 'input': ${
        pythonRepr(text)
      }}`,
      `{'type': 'list_type', 'loc': ('body', 'text', 'list[str]'), 'msg': 'Input should be a valid list', 'input': ${
        pythonRepr(text)
      }}`,
    ]);
  }
  // Text of no letters, such as an empty list's, would keep the engine busy without end.
  const strange = Array.isArray(text) ? text.findIndex((one) => typeof one !== "string") : -1;
  if (Array.isArray(text) && strange >= 0) {
    throw refuseSglangSchema("/generate", [
      `{'type': 'string_type', 'loc': ('body', 'text', 'str'), 'msg': 'Input should be a valid string', 'input': ${
        pythonRepr(text)
      }}`,
      `{'type': 'string_type', 'loc': ('body', 'text', 'list[str]', ${strange}), 'msg': 'Input should be a valid string', 'input': ${
        pythonRepr(text[strange] ?? null)
      }}`,
    ]);
  }
  if (sampling !== undefined && sampling !== null && !Array.isArray(sampling) && !isJsonObject(sampling)) {
    throw refuseSglangSchema("/generate", [
      `{'type': 'list_type', 'loc': ('body', 'sampling_params', 'list[dict[str,any]]'), 'msg': 'Input should be a valid list', 'input': ${
        pythonRepr(sampling)
      }}`,
      `{'type': 'dict_type', 'loc': ('body', 'sampling_params', 'dict[str,any]'), 'msg': 'Input should be a valid dictionary', 'input': ${
        pythonRepr(sampling)
      }}`,
    ]);
  }
}

/** Checks `sampling_params`. Throws `GenerateRefusal`. */
export function samplingParams(params: JsonObject, version: string): SglangSampling {
  for (const key of Object.keys(params)) if (!SAMPLING_KEYS.has(key)) throw new GenerateRefusal(undefined);
  const temperature = numberOf(params, "temperature");
  if (temperature !== undefined && temperature < 0) {
    const kind = versionNumber(version) >= SGLANG.sparseShapes
      ? "a non-negative finite number"
      : "non-negative";
    throw new GenerateRefusal(`temperature must be ${kind}, got ${temperature}.`);
  }
  const maxTokens = params["max_new_tokens"] === null
    ? undefined
    : numberOf(params, "max_new_tokens") ?? DEFAULT_NEW_TOKENS;
  if (maxTokens !== undefined && maxTokens < 0) {
    throw new GenerateRefusal(`max_new_tokens must be at least 0, got ${maxTokens}.`);
  }
  const minTokens = numberOf(params, "min_new_tokens") ?? 0;
  if (maxTokens !== undefined && minTokens > maxTokens) {
    throw new GenerateRefusal(
      `min_new_tokens must be in [0, max_new_tokens(${maxTokens})], got ${minTokens}.`,
    );
  }
  return {
    n: numberOf(params, "n") ?? 1,
    maxTokens,
    minTokens,
    temperature,
    seed: numberOf(params, "sampling_seed"),
    stop: stringList(params["stop"] ?? null),
    stopTokenIds: numberList(params["stop_token_ids"] ?? null),
    ignoreEnd: flag(params, "ignore_eos"),
    skipSpecialTokens: params["skip_special_tokens"] !== false,
    includeStop: flag(params, "no_stop_trim"),
    logitBias: isJsonObject(params["logit_bias"]) ? params["logit_bias"] : undefined,
    forcedText: literalOf(params["regex"] ?? null),
  };
}

/** The text that a regular expression without choices stands for; other grammars have no effect here. */
export function literalOf(regex: Json): string | undefined {
  if (typeof regex !== "string" || /(^|[^\\])[[\](){}.*+?|^$]|\\[a-zA-Z0-9]/.test(regex)) return undefined;
  return regex.replace(/\\(.)/g, "$1");
}

/** A string, or a list of strings. */
export function stringList(value: Json): string[] {
  const list = Array.isArray(value) ? value : [value];
  return list.filter((item) => typeof item === "string").filter((item) => item !== "");
}

/** A list of numbers; other values are dropped. */
export function numberList(value: Json): number[] {
  if (!Array.isArray(value)) return [];
  return value.every((item) => typeof item === "number")
    ? value
    : value.filter((item) => typeof item === "number");
}

/** A number field; a value of another type makes the server fail. */
function numberOf(params: JsonObject, name: string): number | undefined {
  const value = params[name] ?? null;
  if (value === null) return undefined;
  if (typeof value !== "number") throw new GenerateRefusal(undefined);
  return value;
}

/**
 * The longest answer that fits. Throws `GenerateRefusal` for prompts and budgets beyond the context.
 */
export function checkedLength(promptTokens: number, maxTokens: number | undefined, backend: Backend): number {
  const { contextTokens } = backend;
  if (promptTokens >= contextTokens) {
    throw new GenerateRefusal(
      `The input (${promptTokens} tokens) is longer than the model's context length (${contextTokens} tokens).`,
    );
  }
  if (maxTokens === undefined) return contextTokens - promptTokens - 1;
  const total = promptTokens + maxTokens;
  if (total > contextTokens) {
    throw new GenerateRefusal(
      `Requested token count exceeds the model's maximum context length of ${contextTokens} tokens. You requested a total of ${total} tokens: ${promptTokens} tokens from the input messages and ${maxTokens} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.`,
    );
  }
  return maxTokens;
}

function pythonType(value: Json): string {
  if (typeof value === "string") return "str";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "number") return Number.isInteger(value) ? "int" : "float";
  return "dict";
}
