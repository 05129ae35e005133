import { z } from "zod";

const finishReason = z.enum(["stop", "length", "tool_calls", "content_filter"]);

export const usageSchema = z.strictObject({
  prompt_tokens: z.int().min(0),
  completion_tokens: z.int().min(0),
  total_tokens: z.int().min(0),
  prompt_tokens_details: z.strictObject({ cached_tokens: z.int().min(0) }).optional(),
  completion_tokens_details: z.strictObject({
    reasoning_tokens: z.int().min(0),
    answer_tokens: z.int().min(0).optional().describe(
      "Of a virtual model, those of the completion tokens that its root wrote: the answer itself",
    ),
  }),
  cost: z.number().min(0).optional().describe(
    "Of a virtual model whose models have a `price`: what its prompts and answers cost, in the currency of that",
  ),
  spent: z.looseObject({}).optional().describe("Present where the request has a budget"),
  degraded: z.strictObject({
    agents: z.int().describe("Agents that were asked, the root not among them"),
    failed: z.array(z.strictObject({ agent: z.string(), model: z.string(), reason: z.string() })),
    more: z.int().optional().describe("Further failed agents, not listed"),
  }).optional().describe("Present when agents have failed whose answers this answer lacks"),
}).describe("The sum over all engine calls of the request");

const tokenLogprob = {
  token: z.string(),
  logprob: z.number(),
  bytes: z.array(z.int().min(0).max(255)).nullable(),
};

const chatLogprobsSchema = z.strictObject({
  content: z.array(z.strictObject({ ...tokenLogprob, top_logprobs: z.array(z.strictObject(tokenLogprob)) })),
  refusal: z.null(),
});

const completionLogprobsSchema = z.strictObject({
  tokens: z.array(z.string()),
  token_logprobs: z.array(z.number()),
  top_logprobs: z.array(z.record(z.string(), z.number())),
  text_offset: z.array(z.int().min(0)),
});

const canopySchema = z.looseObject({}).describe("What `canopy.include` asked for");

export const chatCompletionSchema = z.strictObject({
  id: z.string().startsWith("chatcmpl-"),
  object: z.literal("chat.completion"),
  created: z.int(),
  model: z.string(),
  choices: z.array(z.strictObject({
    index: z.int().min(0),
    message: z.strictObject({
      role: z.literal("assistant"),
      content: z.string().nullable(),
      refusal: z.null(),
      reasoning_content: z.string().optional(),
      tool_calls: z.array(z.looseObject({})).optional(),
    }),
    logprobs: chatLogprobsSchema.nullable(),
    finish_reason: finishReason,
  })),
  usage: usageSchema,
  canopy: canopySchema.optional(),
}).meta({ id: "ChatCompletion" });

export const chatChunkSchema = z.strictObject({
  id: z.string().startsWith("chatcmpl-"),
  object: z.literal("chat.completion.chunk"),
  created: z.int(),
  model: z.string(),
  choices: z.array(z.strictObject({
    index: z.int().min(0),
    delta: z.strictObject({
      role: z.literal("assistant").optional(),
      content: z.string().optional(),
      reasoning_content: z.string().optional(),
      tool_calls: z.array(z.looseObject({ index: z.int() })).optional(),
    }),
    logprobs: chatLogprobsSchema.nullable(),
    finish_reason: finishReason.nullable(),
  })),
  usage: usageSchema.nullish(),
  canopy: canopySchema.optional(),
}).meta({ id: "ChatCompletionChunk" });

/** Whole answers and chunks have the same form. */
export const completionSchema = z.strictObject({
  id: z.string().startsWith("cmpl-"),
  object: z.literal("text_completion"),
  created: z.int(),
  model: z.string(),
  choices: z.array(z.strictObject({
    index: z.int().min(0),
    text: z.string(),
    logprobs: completionLogprobsSchema.nullable(),
    finish_reason: finishReason.nullable(),
  })),
  usage: usageSchema.nullish(),
  canopy: canopySchema.optional(),
}).meta({ id: "Completion" });

export const modelCardSchema = z.strictObject({
  id: z.string(),
  object: z.literal("model"),
  created: z.int(),
  owned_by: z.string(),
  max_model_len: z.int().optional(),
  simulated: z.literal(true).optional(),
}).meta({ id: "Model" });

export const modelListSchema = z.strictObject({ object: z.literal("list"), data: z.array(modelCardSchema) })
  .meta({ id: "ModelList" });

export const errorSchema = z.strictObject({
  error: z.strictObject({
    message: z.string().min(1),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string(),
  }),
}).meta({ id: "Error" });
