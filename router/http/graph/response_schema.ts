import { z } from "zod";
import { usageSchema } from "../openai/response_schema.ts";

const count = z.int().min(0);

const endFields = {
  state: z.enum(["done", "failed", "cancelled"]),
  finish_reason: z.enum(["stop", "length", "tool_calls", "content_filter"]).nullable(),
  error: z.string().nullable().describe("Why there is no answer"),
  worker: z.string().nullable(),
  usage: usageSchema.nullable().describe("Null when it was never called"),
  timing: z.strictObject({
    started_ms: z.number().nullable(),
    first_token_ms: z.number().nullable(),
    ended_ms: z.number().nullable(),
  }).describe("Since the start of the run"),
  prompt: z.looseObject({}).nullish().describe("As it was sent, with include: prompts"),
};

const sumFields = {
  outputs: z.array(z.string()).min(1).describe("The agents that nobody reads"),
  usage: usageSchema,
  trace: z.array(z.looseObject({})).optional(),
};

/** The answer of POST /v1/graph. */
export const graphAnswerSchema = z.strictObject({
  id: z.string().describe("The run's: GET /v1/runs/ID shows it"),
  object: z.literal("graph"),
  created: z.int(),
  text: z.string().nullable().describe("The only output's; null where there are several"),
  agents: z.record(
    z.string(),
    z.strictObject({ model: z.string(), text: z.string(), reasoning: z.string().optional(), ...endFields }),
  ),
  ...sumFields,
}).meta({ id: "Graph" });

const chunkHead = { id: z.string(), object: z.literal("graph.chunk"), created: z.int() };

/** One event of its stream. */
export const graphChunkSchema = z.discriminatedUnion("type", [
  z.strictObject({
    ...chunkHead,
    type: z.literal("delta"),
    agent: z.string(),
    text: z.string(),
    reasoning: z.string().optional(),
  }),
  z.strictObject({ ...chunkHead, type: z.literal("end"), agent: z.string(), ...endFields }),
  z.strictObject({ ...chunkHead, type: z.literal("done"), ...sumFields }),
]).meta({ id: "GraphChunk" });

/** The answer of POST /v1/warm. */
export const warmSchema = z.strictObject({
  object: z.literal("warm"),
  model: z.string(),
  prompt_tokens: count.describe("Tokens that are cached now, as far as whole blocks go"),
  cached_tokens: count.nullable().describe("Of these, the ones that were there before; null when not known"),
  worker: z.string().describe("Where they are"),
}).meta({ id: "Warm" });
