import { z } from "zod";
import { badRequest, CanopyError } from "../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { TextTokenizer } from "./detokenizer.ts";
import {
  chatSchema,
  type common,
  detokenizeSchema,
  embeddedCompletionSchema,
  tokenizeSchema,
  UNSUPPORTED,
} from "./server_fields.ts";
import type { SamplingDefaults } from "../model/model_files.ts";
import type { SamplingParameters } from "../scheduler/generator.ts";
import { NEUTRAL_SAMPLING } from "../scheduler/sampling.ts";

/** vLLM's own limits. */
const MIN_TEMPERATURE = 0.01;
const MAX_BIAS = 100;

/** What is asked for, completion or chat. */
export interface TextRequest {
  readonly chat: boolean;
  readonly prompts: readonly (readonly number[])[];
  readonly n: number;
  readonly echo: boolean;
  readonly maxTokens: number | undefined;
  readonly minTokens: number;
  /** Without the seed, which is drawn where none is given. */
  readonly sampling: Omit<SamplingParameters, "seed">;
  readonly seed: number | undefined;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly ignoreEnd: boolean;
  readonly includeStop: boolean;
  readonly skipSpecialTokens: boolean;
  readonly logprobs: number | undefined;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly returnTokenIds: boolean;
  readonly tokensAsIds: boolean;
}

/** What a request is read against. */
export interface RequestReader {
  readonly model: string;
  readonly tokenizer: TextTokenizer;
  readonly vocabSize: number;
  readonly maxContextTokens: number;
  readonly defaults: SamplingDefaults;
}

/** Reads a completions request. Throws 400s that name the field, and 404 for another model. */
export function readEmbeddedCompletion(body: JsonObject, reader: RequestReader): TextRequest {
  const fields = read(embeddedCompletionSchema, body, reader);
  const { prompt } = fields;
  const parts = typeof prompt === "string" || prompt.every((id) => typeof id === "number")
    ? [prompt]
    : prompt;
  const prompts = parts.map((part) => typeof part === "string" ? reader.tokenizer.encode(part) : part);
  if (prompts.length === 0) throw badRequest("prompt", "prompt is empty: give at least one prompt");
  if (fields.echo && fields.logprobs !== undefined) {
    throw badRequest("echo", "echo cannot be used together with logprobs: prompts are not scored here");
  }
  return {
    ...sharedFields(fields, reader),
    chat: false,
    prompts: prompts.map((ids) => checkedPrompt(ids, "prompt", fields.truncate_prompt_tokens, reader)),
    echo: fields.echo,
    maxTokens: fields.max_tokens ?? 16,
    logprobs: fields.logprobs,
  };
}

/** Reads a chat request. Throws 400s that name the field, and 404 for another model. */
export function readEmbeddedChat(body: JsonObject, reader: RequestReader): TextRequest {
  const fields = read(chatSchema, body, reader);
  if (fields.top_logprobs !== undefined && !fields.logprobs) {
    throw badRequest("top_logprobs", "top_logprobs needs logprobs: true");
  }
  const prompt = chatPrompt(fields, reader);
  return {
    ...sharedFields(fields, reader),
    chat: true,
    prompts: [checkedPrompt(prompt, "messages", fields.truncate_prompt_tokens, reader)],
    echo: false,
    maxTokens: fields.max_completion_tokens ?? fields.max_tokens,
    logprobs: fields.logprobs ? fields.top_logprobs ?? 0 : undefined,
  };
}

/** Reads a request for the ids of a text or a conversation. */
export function readTokenize(body: JsonObject, reader: RequestReader): { ids: number[]; strings: boolean } {
  const { messages, prompt, return_token_strs, ...fields } = read(tokenizeSchema, body, reader);
  if (messages === undefined && prompt === undefined) {
    throw badRequest("prompt", "prompt is missing: give a prompt or messages");
  }
  const tokens = messages === undefined
    ? reader.tokenizer.encode(prompt ?? "")
    : chatPrompt({ ...fields, messages }, reader);
  return { ids: tokens, strings: return_token_strs };
}

/** Reads a request for the text of ids. */
export function readDetokenize(body: JsonObject, reader: RequestReader): number[] {
  const { tokens } = read(detokenizeSchema, body, reader);
  return checkedIds(tokens, "tokens", reader);
}

function sharedFields(
  fields: z.infer<typeof common>,
  { defaults: own, vocabSize }: RequestReader,
): Omit<TextRequest, "chat" | "prompts" | "echo" | "maxTokens" | "logprobs"> {
  const { stop, stream_options: options } = fields;
  const bias = Object.entries(fields.logit_bias).map(([id, value]) =>
    [Number(id), Math.max(-MAX_BIAS, Math.min(MAX_BIAS, value))] as const
  );
  const foreign = bias.find(([id]) => id >= vocabSize)?.[0];
  if (foreign !== undefined) {
    throw badRequest(
      "logit_bias",
      `logit_bias has token ${foreign}: the vocabulary has ${vocabSize} tokens`,
    );
  }
  if (options !== undefined && !fields.stream) {
    throw badRequest("stream_options", "stream_options needs stream: true");
  }
  const temperature = fields.temperature ?? own.temperature ?? NEUTRAL_SAMPLING.temperature;
  if (fields.n > 1 && temperature === 0) {
    throw badRequest("n", `n is ${fields.n}: at temperature 0 all answers are the same`);
  }
  const topK = fields.top_k ?? own.topK ?? NEUTRAL_SAMPLING.topK;
  return {
    n: fields.n,
    minTokens: fields.min_tokens,
    sampling: {
      // So close to 0 quotients overflow; vLLM raises it as well.
      temperature: temperature > 0 ? Math.max(temperature, MIN_TEMPERATURE) : 0,
      topP: fields.top_p ?? own.topP ?? NEUTRAL_SAMPLING.topP,
      topK: Math.max(0, topK),
      minP: fields.min_p ?? own.minP ?? NEUTRAL_SAMPLING.minP,
      repetitionPenalty: fields.repetition_penalty ?? own.repetitionPenalty ??
        NEUTRAL_SAMPLING.repetitionPenalty,
      presencePenalty: fields.presence_penalty,
      frequencyPenalty: fields.frequency_penalty,
      logitBias: new Map(bias),
    },
    seed: fields.seed,
    stop: (typeof stop === "string" ? [stop] : stop).filter((text) => text !== ""),
    stopTokenIds: fields.stop_token_ids,
    ignoreEnd: fields.ignore_eos,
    includeStop: fields.include_stop_str_in_output,
    skipSpecialTokens: fields.skip_special_tokens,
    stream: fields.stream,
    includeUsage: options?.include_usage ?? false,
    continuousUsage: (options?.include_usage ?? false) && (options?.continuous_usage_stats ?? false),
    returnTokenIds: fields.return_token_ids,
    tokensAsIds: fields.return_tokens_as_token_ids,
  };
}

function read<T extends z.ZodType>(schema: T, body: JsonObject, reader: RequestReader): z.infer<T> {
  const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
  for (const [name, harmless] of Object.entries(UNSUPPORTED)) {
    const value = given[name];
    if (value === undefined || value === false || harmless(value)) continue;
    if (name === "tools" && given["tool_choice"] === "none") continue;
    throw badRequest(
      name,
      `${name} is not supported by the embedded engine: leave it out`,
      "unsupported_value",
    );
  }
  const { success, data, error } = schema.safeParse(given);
  if (!success) {
    const issue = error.issues[0];
    const field = issue?.path.reduce<string>(
      (path, key) =>
        typeof key === "number" ? `${path}[${key}]` : path === "" ? String(key) : `${path}.${String(key)}`,
      "",
    );
    throw badRequest(field === "" ? undefined : field, `${field}: ${issue?.message ?? "is not valid"}`);
  }
  const { model } = given;
  if (typeof model !== "string" || model === reader.model) return data;
  throw new CanopyError(`The model "${model}" does not exist: "${reader.model}" is served here`, {
    code: "model_not_found",
    status: 404,
    param: "model",
  });
}

function chatPrompt(
  fields: {
    readonly messages: readonly JsonObject[] | readonly { [key: string]: unknown; role: string }[];
    readonly add_generation_prompt: boolean;
    readonly continue_final_message: boolean;
    readonly chat_template_kwargs: Record<string, Json>;
  },
  { tokenizer }: RequestReader,
): number[] {
  if (!tokenizer.hasChatTemplate) {
    throw badRequest(
      "messages",
      "messages cannot be rendered: the model has no chat template; use /v1/completions",
    );
  }
  const messages = fields.messages.map((message, index) => ({
    ...z.record(z.string(), z.json()).parse(message),
    role: String(message["role"]),
    content: flatContent(message["content"], index),
  }));
  const text = tokenizer.renderChat(messages, {
    templateArguments: {
      add_generation_prompt: fields.add_generation_prompt && !fields.continue_final_message,
      ...fields.chat_template_kwargs,
    },
  });
  if (!fields.continue_final_message) return tokenizer.encode(text);
  const last = messages.at(-1)?.content ?? "";
  const at = text.lastIndexOf(last);
  return tokenizer.encode(at < 0 ? text : text.slice(0, at + last.length));
}

function flatContent(content: unknown, index: number): string {
  if (content === undefined || content === null) return "";
  if (typeof content === "string") return content;
  const parts = Array.isArray(content) ? content : [undefined];
  return parts.map((part: unknown, at) => {
    if (isJsonObject(part) && typeof part["text"] === "string") return part["text"];
    throw badRequest(`messages[${index}].content[${at}]`, "Only text can be read by the embedded engine");
  }).join("");
}

function checkedPrompt(
  prompt: readonly number[],
  field: string,
  truncate: number | undefined,
  reader: RequestReader,
): readonly number[] {
  const { maxContextTokens } = reader;
  const ids = truncate === undefined
    ? prompt
    : truncate === 0
    ? []
    : prompt.slice(-(truncate < 0 ? maxContextTokens - 1 : truncate));
  if (ids.length === 0) throw badRequest(field, `${field} is empty: the model needs at least one token`);
  if (ids.length >= maxContextTokens) {
    throw badRequest(
      field,
      `This model's maximum context length is ${maxContextTokens} tokens. However, your prompt contains ` +
        `${ids.length} input tokens. Please reduce the length of the input prompt.`,
      "context_length_exceeded",
    );
  }
  return checkedIds(ids, field, reader);
}

function checkedIds(ids: readonly number[], field: string, { vocabSize }: RequestReader): number[] {
  const foreign = ids.find((id) => id >= vocabSize);
  if (foreign === undefined) return [...ids];
  throw badRequest(field, `${field} has token ${foreign}: the vocabulary has ${vocabSize} tokens`);
}
