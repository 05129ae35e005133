import { z } from "zod";
import {
  incrementalPrefillInputSchema,
  incrementalPrefillSchema,
  responsesFormatSchema,
} from "../../../cfgs/schema/config.ts";
import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { engineRequestSchema, messageSchema, samplingFields } from "../openai/request_schema.ts";

/** Parameters of one generation. */
export const parametersSchema = z.looseObject(samplingFields);

const promptSchema = z.union([
  z.string().min(1),
  z.strictObject({ system: z.string().min(1).optional(), user: z.string().min(1).optional() })
    .refine((prompt) => prompt.system !== undefined || prompt.user !== undefined, {
      error: 'must have "system", "user", or both',
    }),
  z.strictObject({ text: z.string().min(1) }),
], {
  error: 'must be a non-empty text (one user message), {"system", "user"}, or {"text"} for a raw prompt',
}).describe(
  "One user message, system and user message, or a raw prompt; <|answer:ID|> is the answer of agent ID",
);

/** One agent of a graph in a request; `null` stands for "not set" everywhere. */
export const requestAgentSchema = z.looseObject({
  model: z.string().min(1).describe("An engine model: GET /v1/models lists them"),
  prompt: promptSchema.nullish(),
  messages: z.array(messageSchema).min(1).nullish().describe("Instead of prompt; slots may be in any text"),
  reads: z.array(z.string()).nullish().describe(
    "Agents whose answers stand where [responses] is; those that slots name need not be listed",
  ),
  responses: responsesFormatSchema.nullish().describe("How [responses] is written"),
  min_responses: z.int().min(1).nullish().describe(
    "Answers that it needs; default: all that it reads, with early exit as many as that needs",
  ),
  deadline_ms: z.number().positive().nullish().describe("Longest time for this agent"),
  on_deadline: z.enum(["drop", "use_partial"]).nullish().describe(
    "What happens to its text when it is cut; default: drop",
  ),
  early_exit: earlyExitSchema.nullish().describe("For the agents that it reads"),
  ...samplingFields,
}).describe("One LLM call; fields that are not listed go to its engine as they are");

/** Everything about a graph but its agents. */
export const rulesSchema = z.looseObject({
  root: z.string().nullish().describe("The only agent that nobody reads, if there must be only one"),
  stream: z.boolean().nullish(),
  include: z.array(z.enum(["prompts", "trace"])).nullish().describe(
    "What to add to the answer: the prompts as they were sent, the trace",
  ),
  sampling: parametersSchema.nullish().describe("For all agents that do not say otherwise"),
  deadline_ms: z.number().positive().nullish().describe("Longest time for the whole graph"),
  min_responses: z.int().min(1).nullish().describe(
    "Outputs (agents that nobody reads) without which the request fails; default: one",
  ),
  on_deadline: z.enum(["drop", "use_partial"]).nullish().describe("For agents that do not say otherwise"),
  slots: z.enum(["declared", "completion"]).nullish().describe(
    "Order of the answers where [responses] is; default: declared",
  ),
  strip_reasoning: z.boolean().nullish().describe(
    "Remove <think> blocks from what other agents read; default: true",
  ),
  early_exit: earlyExitSchema.nullish().describe("For all agents that do not say otherwise"),
  incremental_prefill: incrementalPrefillInputSchema.nullish(),
  on_overflow: z.enum(["cut_middle", "refuse"]).nullish().describe(
    "Answers too long for their reader: cut from their middle, or the reader fails; default: cut_middle",
  ),
  user: z.unknown().optional().describe("Accepted and ignored"),
  metadata: z.unknown().optional().describe("Accepted and ignored"),
});

/** The body of POST /v1/graph; agents are checked one by one, so that errors name them. */
export const graphRequestSchema = rulesSchema.extend({
  agents: z.record(z.string(), requestAgentSchema).describe(
    "By id: up to 128 letters, digits, `_`, `.`, `:`, `/` and `-`; at most 1024 agents",
  ),
}).meta({ id: "GraphRequest" });

/** The body of POST /v1/warm. */
export const warmRequestSchema = z.looseObject({
  model: z.string().min(1).describe("An engine model"),
  prompt: z.union([z.string().min(1), z.array(z.int().min(0)).min(1)], {
    error: "must be a non-empty text or a non-empty list of token ids",
  }).nullish().describe("A raw prompt: a text, or token ids"),
  messages: z.array(messageSchema).min(1).nullish().describe("Instead of prompt: a conversation"),
  session: z.string().min(1).max(256).nullish().describe(
    "Requests with this as their x-smg-routing-key go to the worker that was warmed",
  ),
  ...samplingFields,
}).describe(
  "The request to come, as it will be sent: what concerns only its answer has no effect",
).meta({ id: "WarmRequest" });

const textOrTexts = z.union([z.string().min(1), z.array(z.string().min(1)).min(1).max(1024)], {
  error: "must be a non-empty text, or a list of 1 to 1024 of them",
});

/** The body of POST /prefill_only. */
export const prefillRequestSchema = z.looseObject({
  model: z.string().nullish().describe("May be left out when only one model is served"),
  text: textOrTexts.nullish().describe("A text is prefilled up to its first slot"),
  input_ids: z.union([
    z.array(z.int().min(0)).min(1),
    z.array(z.array(z.int().min(0)).min(1)).min(1).max(1024),
  ], { error: "must be a non-empty list of token ids, or a list of at most 1024 of those" }).nullish(),
  rid: z.union([z.string(), z.array(z.string())], { error: "must be a string or a list of strings" })
    .nullish(),
  session: z.string().min(1).max(256).nullish().describe("As in /v1/warm"),
}).meta({ id: "PrefillRequest" });

/** Incremental prefill where a request says nothing about it. */
export const defaultPrefill = incrementalPrefillSchema.parse({});

/** The body of POST /generate with slots in `text`: a batch of named requests that read each other. */
export const shellRequestSchema = z.looseObject({
  text: textOrTexts,
  rid: z.union([z.string().min(1), z.array(z.string()).min(1)], {
    error: "must name the requests, so that slots can name them: a list of names, or one that is numbered",
  }),
  model: z.union([z.string(), z.array(z.string()).min(1)], {
    error: "must be a model, or a list of one for each text",
  }).nullish(),
  sampling_params: z.union([z.looseObject({}), z.array(z.looseObject({}))], {
    error: "must be an object, or a list of one for each text",
  }).nullish(),
  stream: z.boolean().nullish(),
});

/** The body of POST /generate: with slots in its texts or without. */
export const generateRequestSchema = z.union([shellRequestSchema, engineRequestSchema])
  .meta({ id: "GenerateRequest" });

export type ShellRequest = z.infer<typeof shellRequestSchema>;
export type AgentBody = z.infer<typeof requestAgentSchema>;
export type RulesRequest = z.infer<typeof rulesSchema>;
export type WarmRequest = z.infer<typeof warmRequestSchema>;
export type PrefillRequest = z.infer<typeof prefillRequestSchema>;
