import { z } from "zod";
import { samplingFields, toolSchema } from "../openai/request_schema.ts";

const {
  temperature,
  top_p,
  top_k,
  min_p,
  frequency_penalty,
  presence_penalty,
  repetition_penalty,
  seed,
  stop,
} = samplingFields;

/** How Ollama loads and places a model: engines here are loaded already. */
const loading = z.unknown().optional().describe("Accepted and ignored");

const optionsSchema = z.strictObject({
  temperature,
  top_p,
  top_k,
  min_p,
  frequency_penalty,
  presence_penalty,
  repeat_penalty: repetition_penalty,
  seed,
  stop,
  num_predict: z.int().nullish().describe(
    "Longest answer of the root, in tokens; negative: as the graph says",
  ),
  num_ctx: loading,
  num_batch: loading,
  num_keep: loading,
  num_gpu: loading,
  main_gpu: loading,
  num_thread: loading,
  use_mmap: loading,
  use_mlock: loading,
  numa: loading,
  low_vram: loading,
});

const messageSchema = z.looseObject({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().nullish(),
  images: z.array(z.string()).nullish().describe("Base64"),
  tool_calls: z.array(z.looseObject({
    id: z.string().nullish(),
    function: z.looseObject({ name: z.string().min(1), arguments: z.looseObject({}).nullish() }),
  })).nullish(),
  tool_name: z.string().nullish(),
  tool_call_id: z.string().nullish(),
});

/** A request of Ollama's clients for a graph. */
export const ollamaChatSchema = z.strictObject({
  model: z.string().describe("A virtual model, with or without `:latest`: GET /api/tags lists them"),
  messages: z.array(messageSchema).min(1).max(2048),
  stream: z.boolean().nullish().describe("True unless said otherwise"),
  tools: z.array(toolSchema).nullish().describe("For the root only"),
  format: z.union([z.literal(""), z.literal("json"), z.looseObject({})], {
    error: 'must be "json" or a JSON schema',
  }).nullish(),
  think: z.union([z.boolean(), z.enum(["low", "medium", "high"])], {
    error: "must be true, false, low, medium or high",
  }).nullish().describe("false: what the root thinks is left out; a level: how far the run goes"),
  options: optionsSchema.nullish(),
  keep_alive: loading,
}).meta({ id: "OllamaChatRequest" });

export type OllamaChatRequest = z.infer<typeof ollamaChatSchema>;
