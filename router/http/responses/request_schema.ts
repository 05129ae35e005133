import { z } from "zod";
import { MAX_LOGPROBS, samplingFields } from "../openai/request_schema.ts";

const { temperature, top_p } = samplingFields;

const itemSchema = z.looseObject({ type: z.string().nullish() });

/** What a response's `include` may name: only log-probabilities have an effect. */
const includable = z.enum(["message.output_text.logprobs", "reasoning.encrypted_content"]);

const summary = z.enum(["auto", "concise", "detailed"]).nullish();

const functionSchema = z.looseObject({
  type: z.literal("function", {
    error: 'must be "function": only the client\'s functions can be called here',
  }),
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: z.looseObject({}).nullish(),
  strict: z.boolean().nullish(),
});

const choiceSchema = z.union([
  z.enum(["none", "auto", "required"]),
  z.looseObject({ type: z.literal("function"), name: z.string().min(1) }),
], { error: 'must be "none", "auto", "required" or {"type": "function", "name": …}' });

const formatSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text") }),
  z.looseObject({ type: z.literal("json_object") }),
  z.looseObject({
    type: z.literal("json_schema"),
    name: z.string().min(1),
    schema: z.looseObject({}),
    description: z.string().nullish(),
    strict: z.boolean().nullish(),
  }),
], { error: "must be text, json_object or json_schema, this with a name and a schema" });

/** A request for a response of a graph; fields that are not listed go to the root's engine as they are. */
export const responseRequestSchema = z.looseObject({
  model: z.string().describe("A virtual model or an engine model: GET /v1/models lists them"),
  input: z.union([z.string().min(1), z.array(itemSchema).min(1)], {
    error: "must be a text that is not empty, or a list of at least one item",
  }),
  instructions: z.string().nullish().describe("A system message in front of the input"),
  stream: z.boolean().nullish(),
  max_output_tokens: z.int().min(1).nullish().describe("Longest answer of the root, in tokens"),
  temperature,
  top_p,
  tools: z.array(functionSchema).nullish().describe("For the root only"),
  tool_choice: choiceSchema.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  text: z.strictObject({
    format: formatSchema.nullish(),
    verbosity: z.literal("medium", { error: 'must be "medium" or absent: graphs have no levels of it' })
      .nullish(),
  }).nullish(),
  reasoning: z.strictObject({
    effort: z.string().nullish().describe(
      "low, medium or high: how far the run goes; as the graph's `effort` says",
    ),
    summary: summary.describe(
      "Who said what: concise names the agents, auto and detailed give their answers, too",
    ),
    generate_summary: summary.describe("The older name of summary"),
  }).nullish(),
  include: z.array(includable).nullish(),
  top_logprobs: z.int().min(0).max(MAX_LOGPROBS).nullish().describe(
    'Only with "message.output_text.logprobs" in include',
  ),
  metadata: z.record(z.string(), z.string()).nullish().describe("Comes back with the answer"),
  user: z.string().nullish().describe("Comes back with the answer"),
  store: z.literal(false, {
    error: "must be false or absent: this router keeps no responses; send the history with each request",
  }).nullish(),
  background: z.literal(false, {
    error: "must be false or absent: this router keeps no responses; wait for the answer, or stream it",
  }).nullish(),
  truncation: z.literal("disabled", {
    error: 'must be "disabled" or absent: conversations are not shortened here',
  }).nullish(),
  previous_response_id: z.null({
    error: "must be absent: this router keeps no responses; send the history with each request",
  }).optional(),
  conversation: z.null({
    error: "must be absent: this router keeps no conversations; send the history with each request",
  }).optional(),
  prompt: z.null({ error: "must be absent: this router keeps no prompts; send instructions and input" })
    .optional(),
  context_management: z.null({ error: "must be absent: conversations are not shortened here" }).optional(),
}).meta({ id: "ResponseRequest" });

export type ResponseRequest = z.infer<typeof responseRequestSchema>;
