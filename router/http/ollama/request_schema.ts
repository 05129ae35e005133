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

const modelField = z.string().describe(
  "A virtual model, with or without `:latest`: GET /api/tags lists them",
);

/** Fields of chats and of generations. */
const commonFields = {
  model: modelField,
  stream: z.boolean().nullish().describe("True unless said otherwise"),
  format: z.union([z.literal(""), z.literal("json"), z.looseObject({})], {
    error: 'must be "json" or a JSON schema',
  }).nullish(),
  think: z.union([z.boolean(), z.enum(["low", "medium", "high"])], {
    error: "must be true, false, low, medium or high",
  }).nullish().describe("false: what the root thinks is left out; a level: how far the run goes"),
  options: optionsSchema.nullish(),
  keep_alive: loading,
};

/** A request of Ollama's clients for a graph. */
export const ollamaChatSchema = z.strictObject({
  ...commonFields,
  messages: z.array(messageSchema).max(2048).nullish().describe("Without one nothing is asked"),
  tools: z.array(toolSchema).nullish().describe("For the root only"),
}).meta({ id: "OllamaChatRequest" });

/** A field that clients also send empty, and that nothing here can honour. */
const unusable = <Field extends z.ZodType>(field: Field, why: string) =>
  field.refine((value) => value === "" || value === false || (Array.isArray(value) && value.length === 0), {
    error: `must be left out: ${why}`,
  }).nullish();

const OWN_PROMPTS = "the agents of a graph have prompts of their own";

/** A prompt of Ollama's clients for a graph. */
export const ollamaGenerateSchema = z.strictObject({
  ...commonFields,
  prompt: z.string().nullish().describe("Without one, as without a message: nothing is asked"),
  system: z.string().nullish().describe("A message before the prompt"),
  images: z.array(z.string()).nullish().describe("Base64"),
  suffix: unusable(z.string(), "a graph does not fill in the middle"),
  template: unusable(z.string(), OWN_PROMPTS),
  raw: unusable(z.boolean(), `${OWN_PROMPTS}; /v1/completions takes plain text`),
  context: unusable(
    z.array(z.unknown()),
    "no answer has one here; send what was said before by /api/chat",
  ),
}).meta({ id: "OllamaGenerateRequest" });

/** A look-up of one graph. */
export const ollamaShowSchema = z.strictObject({
  model: modelField.nullish(),
  name: z.string().nullish().describe("The older name of model"),
  verbose: z.boolean().nullish().describe("Accepted and ignored"),
  system: z.literal("").nullish(),
  template: z.literal("").nullish(),
  options: z.looseObject({}).nullish().describe("Accepted and ignored"),
}).meta({ id: "OllamaShowRequest" });

export type OllamaCommonRequest = Pick<OllamaChatRequest, keyof typeof commonFields>;
export type OllamaChatRequest = z.infer<typeof ollamaChatSchema>;
export type OllamaGenerateRequest = z.infer<typeof ollamaGenerateSchema>;
