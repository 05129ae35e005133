import { z } from "zod";
import { usageSchema } from "../openai/response_schema.ts";

const { cost, degraded } = usageSchema.shape;

const status = z.enum(["in_progress", "completed", "incomplete"]);

const outputText = z.strictObject({
  type: z.literal("output_text"),
  text: z.string(),
  annotations: z.array(z.never()),
  logprobs: z.array(z.looseObject({ token: z.string(), logprob: z.number() })),
});

const summaryText = z.strictObject({ type: z.literal("summary_text"), text: z.string() });

const reasoningText = z.strictObject({ type: z.literal("reasoning_text"), text: z.string() });

const outputItem = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("message"),
    id: z.string().startsWith("msg_"),
    status,
    role: z.literal("assistant"),
    content: z.array(outputText),
  }),
  z.strictObject({
    type: z.literal("function_call"),
    id: z.string().startsWith("fc_"),
    status,
    call_id: z.string().min(1),
    name: z.string(),
    arguments: z.string(),
  }),
  z.strictObject({
    type: z.literal("reasoning"),
    id: z.string().startsWith("rs_"),
    status,
    summary: z.array(summaryText).describe("Who said what, where `reasoning.summary` asks for it"),
    content: z.array(reasoningText).optional().describe("What the root thought, where its engine tells"),
  }),
]);

export const responseSchema = z.strictObject({
  id: z.string().startsWith("resp_"),
  object: z.literal("response"),
  created_at: z.int(),
  status: z.enum(["in_progress", "completed", "incomplete", "failed"]),
  background: z.literal(false),
  error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  incomplete_details: z.strictObject({ reason: z.enum(["max_output_tokens", "content_filter"]) }).nullable(),
  model: z.string(),
  output: z.array(outputItem),
  instructions: z.string().nullable(),
  max_output_tokens: z.int().nullable(),
  metadata: z.record(z.string(), z.string()),
  parallel_tool_calls: z.boolean(),
  previous_response_id: z.null(),
  reasoning: z.looseObject({ effort: z.string().nullable(), summary: z.string().nullable() }),
  store: z.literal(false).describe("This router keeps no responses"),
  temperature: z.number().nullable(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }) }),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })]),
  tools: z.array(z.looseObject({ type: z.string() })),
  top_p: z.number().nullable(),
  top_logprobs: z.int(),
  truncation: z.literal("disabled"),
  user: z.string().nullable(),
  usage: z.strictObject({
    input_tokens: z.int().min(0),
    input_tokens_details: z.strictObject({ cached_tokens: z.int().min(0), cache_write_tokens: z.literal(0) }),
    output_tokens: z.int().min(0),
    output_tokens_details: usageSchema.shape.completion_tokens_details,
    total_tokens: z.int().min(0),
    cost,
    degraded,
    spent: z.looseObject({}).optional().describe("Present where the request has a budget"),
  }).nullable().describe("The sum over all engine calls of the request; null until the end"),
  canopy: z.looseObject({}).optional().describe("What `canopy.include` asked for"),
}).meta({ id: "Response" });

export const responseEventSchema = z.looseObject({
  type: z.string().startsWith("response."),
  sequence_number: z.int().min(0),
}).meta({ id: "ResponseEvent" });
