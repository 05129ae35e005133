import { z } from "zod";
import { readInt64 } from "../../../base/int64.ts";
import { rootStartSchema } from "../../../cfgs/schema/staircase.ts";

/** Most answers per prompt. */
export const MAX_CHOICES = 16;
/** Most prompts in one completions request. */
export const MAX_PROMPTS = 1024;
/** Most alternatives per token. */
export const MAX_LOGPROBS = 20;

const stopSchema = z.union([z.string().min(1), z.array(z.string().min(1)).max(256)], {
  error: "must be a string or a list of at most 256 strings, none of them empty",
});

/** All that engines take: numbers beyond 2^53 are carried exactly (`readInt64`). */
const seedSchema = z.unknown().refine((seed) => readInt64(seed) !== undefined, {
  error: "must be a whole number from -2^63 to 2^63 - 1",
}).meta({ type: "integer", description: "From -2^63 to 2^63 - 1" });

/** Parameters of one generation. */
export const samplingFields = {
  max_tokens: z.int().min(1).nullish().describe("Longest answer, in tokens; of a virtual model, the root's"),
  max_completion_tokens: z.int().min(1).nullish().describe("The newer name of max_tokens; wins over it"),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  repetition_penalty: z.number().gt(0).max(2).nullish(),
  seed: seedSchema.nullish(),
  stop: stopSchema.nullish(),
  logit_bias: z.record(z.string(), z.number().min(-100).max(100)).nullish(),
  response_format: z.looseObject({
    type: z.string(),
    json_schema: z.looseObject({}).nullish(),
  }).nullish(),
};

/**
 * Fields that both endpoints share, for virtual models. `null` stands for "not set" everywhere; fields that are not
 * listed go to the root's engine as they are.
 */
const commonFields = {
  model: z.string().describe("A virtual model or an engine model: GET /v1/models lists them"),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({
    include_usage: z.boolean().nullish().describe("One more chunk at the end, with the usage and no choices"),
    continuous_usage_stats: z.boolean().nullish().describe("The usage so far in every chunk"),
  }).nullish().describe("Only with stream"),
  n: z.int().min(1).max(MAX_CHOICES).nullish().describe("Answers wanted; the root is called this many times"),
  ...samplingFields,
  reasoning_effort: z.unknown().optional().describe(
    "low, medium or high: how far the run goes; as the graph's `effort` says",
  ),
  canopy: z.strictObject({
    include: z.array(z.enum(["usage", "panel", "trace"])).nullish().describe(
      "What to add to the answer: usage per agent and model, the panel's answers, the trace",
    ),
    root: rootStartSchema.nullish().describe(
      "staircase: the root starts on the first words of its precursors; wait: when they are done; default: as the graph says",
    ),
    budget: z.strictObject({
      latency_ms: z.number().positive().nullish().describe("From the run's start to its last word"),
      tokens: z.int().positive().nullish().describe("Prompts and answers of all agents together"),
      cost: z.number().positive().nullish().describe("In the currency of the models' prices"),
    }).nullish().describe(
      "Limits of the run: at the first that is reached, the best answer known by then is given",
    ),
  }).nullish().describe("Canopy's own options"),
  user: z.unknown().optional().describe("Accepted and ignored"),
  metadata: z.unknown().optional().describe("Accepted and ignored"),
  store: z.unknown().optional().describe("Accepted and ignored"),
};

const contentSchema = z.union([z.string(), z.array(z.looseObject({ type: z.string() })).min(1)], {
  error: "must be a string or a non-empty list of objects with a `type`",
});

export const messageSchema = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: contentSchema.nullish(),
});

export const toolSchema = z.looseObject({
  type: z.string(),
  function: z.looseObject({ name: z.string().min(1) }).nullish(),
});

const toolFields = {
  tools: z.array(toolSchema).nullish().describe("For the root only"),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })], {
    error: "must be a string or an object with a `type`",
  }).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
};

export const chatRequestSchema = z.looseObject({
  ...commonFields,
  messages: z.array(messageSchema).min(1),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(MAX_LOGPROBS).nullish().describe("Only with logprobs"),
  ...toolFields,
}).meta({ id: "ChatCompletionRequest" });

/** Checked by hand (`readPrompts`): a union over a million token ids would be slow and its errors vague. */
const promptSchema = z.unknown().meta({
  description: "A text, a list of texts, a list of token ids, or a list of such lists",
  anyOf: [
    { type: "string", minLength: 1 },
    { type: "array", minItems: 1, items: { type: "string", minLength: 1 } },
    { type: "array", minItems: 1, items: { type: "integer", minimum: 0 } },
    {
      type: "array",
      minItems: 1,
      items: { type: "array", minItems: 1, items: { type: "integer", minimum: 0 } },
    },
  ],
});

export const completionRequestSchema = z.looseObject({
  ...commonFields,
  prompt: promptSchema,
  logprobs: z.union([z.int().min(0).max(MAX_LOGPROBS), z.literal(false)], {
    error: `must be a whole number from 0 to ${MAX_LOGPROBS}`,
  }).nullish(),
  echo: z.boolean().nullish().describe("The prompt's text before the answer; not together with logprobs"),
  best_of: z.int().nullish().describe("Only equal to n"),
  suffix: z.string().nullish().describe("Refused unless empty"),
}).meta({ id: "CompletionRequest" });

/** The part of a request for an engine model that the router reads. */
export const engineRequestSchema = z.looseObject({
  model: z.string().optional().describe(
    "An engine model; may be left out of /generate when there is only one",
  ),
}).meta({ id: "EngineRequest" });

export type ChatRequest = z.infer<typeof chatRequestSchema>;
export type CompletionRequest = z.infer<typeof completionRequestSchema>;
const sharedSchema = z.object({ ...commonFields, ...toolFields });
/** Fields of both; the tools are only ever set in a chat request. */
export type CommonRequest = z.infer<typeof sharedSchema>;
