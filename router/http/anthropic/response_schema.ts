import { z } from "zod";
import { usageSchema } from "../openai/response_schema.ts";

const blockSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text"), text: z.string(), citations: z.null() }),
  z.strictObject({ type: z.literal("thinking"), thinking: z.string(), signature: z.literal("") }),
  z.strictObject({
    type: z.literal("tool_use"),
    id: z.string().min(1),
    name: z.string(),
    input: z.unknown(),
  }),
]);

export const anthropicMessageSchema = z.strictObject({
  id: z.string().startsWith("msg_"),
  type: z.literal("message"),
  role: z.literal("assistant"),
  model: z.string(),
  content: z.array(blockSchema),
  stop_reason: z.enum(["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]).nullable(),
  stop_sequence: z.string().nullable(),
  usage: z.strictObject({
    input_tokens: z.int().min(0).describe("Of all calls, less those that were in an engine's cache"),
    cache_creation_input_tokens: z.literal(0),
    cache_read_input_tokens: z.int().min(0),
    output_tokens: z.int().min(0),
    output_tokens_details: z.strictObject({ thinking_tokens: z.int().min(0) }),
    service_tier: z.literal("standard"),
    cost: usageSchema.shape.cost,
    degraded: usageSchema.shape.degraded,
    spent: z.looseObject({}).optional().describe("Present where the request has a budget"),
  }).describe("The sum over all engine calls of the request"),
  canopy: z.looseObject({}).optional().describe("What `canopy.include` asked for"),
}).meta({ id: "Message" });

export const messageEventSchema = z.looseObject({
  type: z.enum([
    ...["message_start", "ping", "content_block_start", "content_block_delta", "content_block_stop"] as const,
    ...["message_delta", "message_stop", "error"] as const,
  ]),
}).meta({ id: "MessageEvent" });

export const tokenCountSchema = z.strictObject({ input_tokens: z.int().min(0) }).meta({ id: "TokenCount" });

export const anthropicErrorSchema = z.strictObject({
  type: z.literal("error"),
  error: z.strictObject({ type: z.string(), message: z.string().min(1) }),
}).meta({ id: "AnthropicError" });
