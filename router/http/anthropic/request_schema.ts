import { z } from "zod";
import { samplingFields } from "../openai/request_schema.ts";

const { temperature, top_p, top_k } = samplingFields;

const blocksSchema = z.union([z.string(), z.array(z.looseObject({ type: z.string() })).min(1)], {
  error: "must be a text, or a list of at least one block with a `type`",
});

const messageSchema = z.looseObject({
  role: z.enum(["user", "assistant", "system"]),
  content: blocksSchema,
});

const toolSchema = z.looseObject({
  type: z.literal("custom", {
    error: 'must be "custom" or absent: only the client\'s own tools can be called here',
  }).nullish(),
  name: z.string().min(1),
  description: z.string().nullish(),
  input_schema: z.looseObject({}),
  strict: z.boolean().nullish(),
});

const parallel = { disable_parallel_tool_use: z.boolean().nullish() };

const choiceSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("auto"), ...parallel }),
  z.looseObject({ type: z.literal("any"), ...parallel }),
  z.looseObject({ type: z.literal("none") }),
  z.looseObject({ type: z.literal("tool"), name: z.string().min(1), ...parallel }),
], { error: "must be auto, any, none or tool" });

/** Fields of a conversation, which are counted as well as answered. */
const conversation = {
  model: z.string().describe("A virtual model or an engine model: GET /v1/models lists them"),
  messages: z.array(messageSchema).min(1).max(2048),
  system: blocksSchema.nullish(),
  tools: z.array(toolSchema).nullish().describe("For the root only"),
  tool_choice: choiceSchema.nullish(),
  thinking: z.looseObject({ type: z.enum(["enabled", "adaptive", "disabled"]) }).nullish().describe(
    "Unless disabled: what the root thinks, where its engine tells it apart, is a block of the answer",
  ),
  output_config: z.strictObject({
    effort: z.string().nullish().describe(
      "low, medium or high: how far the run goes; as the graph's `effort` says",
    ),
    format: z.looseObject({
      type: z.literal("json_schema", { error: "must be json_schema" }),
      schema: z.looseObject({}),
    }).nullish(),
  }).nullish(),
};

/** A request for a message of a graph; fields that are not listed go to the root's engine as they are. */
export const messageRequestSchema = z.looseObject({
  ...conversation,
  max_tokens: z.int().min(1).describe("Longest answer of the root, in tokens"),
  stream: z.boolean().nullish(),
  stop_sequences: z.array(z.string().min(1)).max(256).nullish(),
  temperature,
  top_p,
  top_k,
  metadata: z.looseObject({}).nullish().describe("Accepted and ignored"),
  speed: z.literal("standard", { error: 'must be "standard" or absent' }).nullish(),
  container: z.null({ error: "must be absent: there are no containers here" }).optional(),
  context_management: z.null({ error: "must be absent: conversations are not shortened here" }).optional(),
  mcp_servers: z.array(z.never(), {
    error: "must be absent or empty: there are no MCP servers here; let the client call its tools",
  }).max(0).nullish(),
}).meta({ id: "MessageRequest" });

export const countRequestSchema = z.looseObject(conversation).meta({ id: "CountTokensRequest" });

export type MessageRequest = z.infer<typeof messageRequestSchema>;
