import { z } from "zod";
import type { Clock } from "../../base/clock.ts";
import { badRequest, type CanopyError } from "../../base/errors.ts";
import { readInt64 } from "../../base/int64.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { turnByTurn } from "../../base/turns.ts";
import type { AnswerJob } from "./answers.ts";
import type { SamplingDefaults } from "../model/model_files.ts";
import type { GeneratorFacts, SamplingParameters, SequenceRequest } from "../scheduler/generator.ts";
import { NEUTRAL_SAMPLING } from "../scheduler/sampling.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import { renderInTurns, textToContinue, toBeContinued } from "../../ml/tokenizers/render_chat.ts";
import { tokenise, type TokeniseOptions } from "../../ml/tokenizers/tokenise.ts";
import { fieldError, isSet } from "../../router/http/gate/fields.ts";
import { modelNotFound } from "../../router/http/gate/find_model.ts";
import { readLogprobs, readMessages } from "../../router/http/openai/chat_request.ts";
import { checkIds, readPrompts } from "../../router/http/openai/completion_request.ts";
import { type CompletionPlan, readDelivery } from "../../router/http/openai/plan.ts";
import {
  chatRequestSchema,
  type CommonRequest,
  completionRequestSchema,
  messageSchema,
} from "../../router/http/openai/request_schema.ts";

/** vLLM's own limits. */
const MAX_CHOICES = 128;
const MIN_TEMPERATURE = 0.01;
const MAX_BIAS = 100;
/** Tokens of a completion that says nothing of `max_tokens`, as of vLLM. */
const COMPLETION_TOKENS = 16;

const count = z.int().min(0);

/** Fields of vLLM's that OpenAI lacks, and those that vLLM reads otherwise. */
const engineFields = {
  model: z.string().nullish(),
  n: z.int().min(1).max(MAX_CHOICES).nullish(),
  min_tokens: count.nullish(),
  logit_bias: z.record(z.string().regex(/^\d+$/), z.number()).nullish(),
  stop_token_ids: z.array(count).nullish(),
  ignore_eos: z.boolean().nullish(),
  include_stop_str_in_output: z.boolean().nullish(),
  skip_special_tokens: z.boolean().nullish(),
  return_token_ids: z.boolean().nullish(),
  return_tokens_as_token_ids: z.boolean().nullish(),
  truncate_prompt_tokens: z.int().min(-1).nullish(),
  priority: z.int().nullish(),
  // Not vLLM's.
  priority_tokens: count.nullish(),
};

/** Fields of both endpoints. */
const engineSchema = z.object(engineFields);
type CommonFields = Omit<CommonRequest, keyof typeof engineFields> & z.infer<typeof engineSchema>;

// Templates know roles of their own.
const messages = z.array(messageSchema.extend({ role: z.string() })).min(1);

const templateSchema = z.object({
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  chat_template_kwargs: z.record(z.string(), z.json()).nullish(),
});

const completionSchema = completionRequestSchema.extend(engineFields);

const chatSchema = chatRequestSchema.extend({ ...engineFields, ...templateSchema.shape, messages });

const tokenizeSchema = z.looseObject({
  ...templateSchema.shape,
  messages: messages.nullish(),
  prompt: z.string().nullish(),
  return_token_strs: z.boolean().nullish(),
});

const detokenizeSchema = z.looseObject({ tokens: z.array(z.unknown()) });

/** Fields that change the answer in ways that are not made here; `null`, `false` and empty values ask for nothing. */
const UNSUPPORTED = [
  ...["response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice"],
  ...["guided_grammar", "tools", "functions", "chat_template", "use_beam_search", "prompt_logprobs"],
  ...["prompt_embeds", "suffix", "best_of", "allowed_token_ids", "bad_words", "kv_transfer_params"],
];

/** The model that requests are read for. */
export interface RequestTarget {
  readonly model: string;
  readonly tokenizer: ModelTokenizer;
  readonly facts: Pick<GeneratorFacts, "vocabSize" | "maxContextTokens">;
  /** Ids that end an answer, the model's own end first. */
  readonly endIds: readonly number[];
  readonly defaults: SamplingDefaults;
  /** A seed for a request without one. */
  readonly newSeed: () => string;
  readonly clock: Clock;
}

/** A request for answers. */
export interface GenerationPlan
  extends Pick<CompletionPlan, "choices" | "stream" | "includeUsage" | "continuousUsage" | "logprobs"> {
  readonly chat: boolean;
  /** One per choice; choice `i` of prompt `p` has index `p * choices + i`. */
  readonly jobs: readonly AnswerJob[];
  readonly echo: boolean;
  readonly returnTokenIds: boolean;
}

/** Reads a completions request. Throws 400s that name the field, and 404 for another model. */
export async function readCompletionJobs(
  body: JsonObject,
  target: RequestTarget,
  signal?: AbortSignal,
): Promise<GenerationPlan> {
  const request = read(completionSchema, body, target);
  const { tokenizer, facts } = target;
  const logprobs = typeof request.logprobs === "number" ? request.logprobs : undefined;
  const echo = request.echo === true;
  if (echo && logprobs !== undefined) {
    throw badRequest("echo", "echo cannot be used together with logprobs: prompts are not scored here");
  }
  const prompts = readPrompts(body.prompt, (ids, name) => checkIds(ids, name, facts.vocabSize));
  const promptIds: (readonly number[])[] = [];
  for (const prompt of prompts) {
    const ids = typeof prompt === "string"
      ? await tokenise(prompt, tokenizer, tokenLimit("prompt", request, target, signal))
      : prompt;
    promptIds.push(checkLength(ids, "prompt", request, target));
  }
  const maxTokens = request.max_tokens ?? COMPLETION_TOKENS;
  return { ...readJobs(request, { promptIds, maxTokens, logprobs }, target), chat: false, echo };
}

/** Reads a chat request. Throws 400s that name the field, and 404 for another model. */
export async function readChatJobs(
  body: JsonObject,
  target: RequestTarget,
  signal?: AbortSignal,
): Promise<GenerationPlan> {
  const request = read(chatSchema, body, target);
  const logprobs = readLogprobs(request);
  const text = await readConversation(request, body, target);
  const ids = await tokenise(text, target.tokenizer, tokenLimit("messages", request, target, signal));
  const promptIds = [checkLength(ids, "messages", request, target)];
  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? Infinity;
  return { ...readJobs(request, { promptIds, maxTokens, logprobs }, target), chat: true, echo: false };
}

/** Reads a request for the ids of a text or a conversation. */
export async function readTokenize(
  body: JsonObject,
  target: RequestTarget,
  signal?: AbortSignal,
): Promise<{ ids: readonly number[]; strings: boolean }> {
  const request = read(tokenizeSchema, body, target);
  const strings = request.return_token_strs === true;
  const text = isSet(request.messages) ? await readConversation(request, body, target) : request.prompt;
  if (isSet(text)) return { ids: await tokenise(text, target.tokenizer, { signal }), strings };
  throw badRequest("prompt", "prompt is missing: give a prompt or messages", "missing_field");
}

/** Reads a request for the text of ids. */
export function readDetokenize(body: JsonObject, target: RequestTarget): number[] {
  read(detokenizeSchema, body, target);
  const tokens = Array.isArray(body.tokens) ? body.tokens : [];
  return tokens.length === 0 ? [] : checkIds(tokens, "tokens", target.facts.vocabSize);
}

interface AskedTokens {
  readonly promptIds: readonly (readonly number[])[];
  readonly maxTokens: number;
  readonly logprobs: number | undefined;
}

function readJobs(
  request: CommonFields,
  { promptIds: prompts, maxTokens: asked, logprobs }: AskedTokens,
  target: RequestTarget,
): Omit<GenerationPlan, "chat" | "echo"> {
  const { tokenizer, endIds, facts } = target;
  const choices = request.n ?? 1;
  const sampling = readSamplingParameters(request, target);
  if (choices > 1 && sampling.temperature === 0) {
    throw badRequest("n", `n is ${choices}: at temperature 0 all answers are the same`);
  }
  const seed = String(readInt64(request.seed) ?? target.newSeed());
  const minTokens = request.min_tokens ?? 0;
  const ownEnds = request.ignore_eos === true ? [] : endIds;
  const common = {
    tokenizer,
    stop: typeof request.stop === "string" ? [request.stop] : request.stop ?? [],
    endId: ownEnds[0],
    includeStop: request.include_stop_str_in_output === true,
    skipSpecialTokens: request.skip_special_tokens !== false,
    tokensAsIds: request.return_tokens_as_token_ids === true,
  };
  const jobs = prompts.flatMap((promptIds, prompt) => {
    const maxTokens = Math.min(asked, facts.maxContextTokens - promptIds.length);
    if (minTokens > maxTokens) {
      throw badRequest("min_tokens", `min_tokens is ${minTokens}, more than max_tokens=${maxTokens}`);
    }
    return Array.from({ length: choices }, (_, choice): AnswerJob => {
      const sequence: SequenceRequest = {
        promptIds,
        maxTokens,
        minTokens,
        sampling: { ...sampling, seed: choice === 0 ? seed : `${seed}/${choice}` },
        stopIds: new Set([...ownEnds, ...request.stop_token_ids ?? []]),
        priority: request.priority ?? undefined,
        priorityTokens: request.priority_tokens ?? undefined,
        logprobs,
      };
      return { ...common, index: prompt * choices + choice, request: sequence };
    });
  });
  const returnTokenIds = request.return_token_ids === true;
  return { ...readDelivery(request), choices, jobs, logprobs: logprobs !== undefined, returnTokenIds };
}

function readSamplingParameters(
  request: CommonFields,
  { defaults, facts }: RequestTarget,
): Omit<SamplingParameters, "seed"> {
  const bias = Object.entries(request.logit_bias ?? {}).map(([id, value]) =>
    [Number(id), Math.max(-MAX_BIAS, Math.min(MAX_BIAS, value))] as const
  );
  const foreign = bias.find(([id]) => id >= facts.vocabSize)?.[0];
  if (foreign !== undefined) {
    throw badRequest(
      "logit_bias",
      `logit_bias has token ${foreign}: the vocabulary has ${facts.vocabSize} tokens`,
    );
  }
  const neutral = NEUTRAL_SAMPLING;
  const temperature = request.temperature ?? defaults.temperature ?? neutral.temperature;
  return {
    // So close to 0 quotients overflow; vLLM raises it as well.
    temperature: temperature > 0 ? Math.max(temperature, MIN_TEMPERATURE) : 0,
    topP: request.top_p ?? defaults.topP ?? neutral.topP,
    topK: Math.max(0, request.top_k ?? defaults.topK ?? neutral.topK),
    minP: request.min_p ?? defaults.minP ?? neutral.minP,
    repetitionPenalty: request.repetition_penalty ?? defaults.repetitionPenalty ?? neutral.repetitionPenalty,
    presencePenalty: request.presence_penalty ?? neutral.presencePenalty,
    frequencyPenalty: request.frequency_penalty ?? neutral.frequencyPenalty,
    logitBias: new Map(bias),
  };
}

function read<T extends z.ZodType>(schema: T, body: JsonObject, { model }: RequestTarget): z.infer<T> {
  for (const name of UNSUPPORTED) {
    const value = body[name];
    if (value === undefined || asksNothing(name, value, body)) continue;
    throw badRequest(
      name,
      `${name} is not supported by the embedded engine: leave it out`,
      "unsupported_value",
    );
  }
  const { success, data, error } = schema.safeParse(body);
  if (!success) throw fieldError(error, body);
  if (typeof body.model === "string" && body.model !== model) throw modelNotFound(body.model);
  return data;
}

function asksNothing(name: string, value: Json, body: JsonObject): boolean {
  if (value === null || value === false || value === "") return true;
  if (Array.isArray(value) && value.length === 0) return true;
  if (name === "best_of") return value === 1;
  if (name === "response_format") return isJsonObject(value) && value.type === "text";
  return name === "tools" && body.tool_choice === "none";
}

/** The text of a conversation in the model's own template. */
async function readConversation(
  request: z.infer<typeof templateSchema>,
  body: JsonObject,
  { tokenizer, clock }: RequestTarget,
): Promise<string> {
  if (!tokenizer.hasChatTemplate) {
    throw badRequest(
      "messages",
      "messages cannot be rendered: the model has no chat template; use /v1/completions",
    );
  }
  const messages = readMessages(body.messages ?? []).map((message, index) => ({
    ...message,
    content: textOf(message.content, index),
  }));
  const continues = request.continue_final_message === true;
  const templateArguments = {
    add_generation_prompt: request.add_generation_prompt !== false && !continues,
    ...request.chat_template_kwargs,
  };
  const asked = continues ? toBeContinued(messages) : messages;
  const text = await turnByTurn(clock, renderInTurns(asked, tokenizer, { templateArguments }));
  const whole = continues ? textToContinue(text) : text;
  if (whole !== undefined) return whole;
  throw badRequest(
    "continue_final_message",
    "continue_final_message cannot be used: the model's chat template leaves the last message out",
  );
}

/** A message's content; its parts are joined. */
function textOf(content: Json, index: number): string {
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content.map((part, at) => {
    if (isJsonObject(part) && typeof part.text === "string") return part.text;
    throw badRequest(`messages[${index}].content[${at}]`, "Only text can be read by the embedded engine");
  }).join("");
}

function checkLength(
  prompt: readonly number[],
  field: string,
  { truncate_prompt_tokens: truncate }: CommonFields,
  { facts: { maxContextTokens } }: RequestTarget,
): readonly number[] {
  const most = truncate === -1 ? maxContextTokens - 1 : truncate ?? prompt.length;
  const ids = most === 0 ? [] : prompt.slice(-most);
  if (ids.length === 0) throw badRequest(field, `${field} is empty: the model needs at least one token`);
  if (ids.length < maxContextTokens) return ids;
  throw tooManyTokens(field, maxContextTokens, `${ids.length}`);
}

/** A prompt that is not to be cut ends being encoded where it cannot fit any more. */
function tokenLimit(
  field: string,
  { truncate_prompt_tokens: truncate }: CommonFields,
  { facts: { maxContextTokens } }: RequestTarget,
  signal: AbortSignal | undefined,
): TokeniseOptions {
  if (isSet(truncate)) return { signal };
  const tooLong = (least: number) => tooManyTokens(field, maxContextTokens, `at least ${least}`);
  return { signal, limit: { tokens: maxContextTokens, tooLong } };
}

function tooManyTokens(field: string, maxContextTokens: number, count: string): CanopyError {
  return badRequest(
    field,
    `This model's maximum context length is ${maxContextTokens} tokens. However, your prompt contains ` +
      `${count} input tokens. Please reduce the length of the input prompt.`,
    "context_length_exceeded",
  );
}
