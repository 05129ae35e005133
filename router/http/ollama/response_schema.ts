import { z } from "zod";

const answerFields = {
  model: z.string(),
  created_at: z.string(),
  done: z.boolean(),
  prompt_eval_count: z.int().optional().describe("Of all calls of the run"),
  eval_count: z.int().optional().describe("Of all calls of the run"),
};

export const ollamaAnswerSchema = z.strictObject({
  ...answerFields,
  message: z.strictObject({
    role: z.literal("assistant"),
    content: z.string(),
    thinking: z.string().optional(),
    tool_calls: z.array(z.strictObject({
      id: z.string(),
      function: z.strictObject({ index: z.int(), name: z.string(), arguments: z.unknown() }),
    })).optional(),
  }),
  done_reason: z.enum(["stop", "length", "load", "unload"]).optional().describe(
    "load, unload: there was no message",
  ),
}).meta({ id: "OllamaChatAnswer" });

export const ollamaGeneratedSchema = z.strictObject({
  ...answerFields,
  response: z.string(),
  thinking: z.string().optional(),
  done_reason: z.enum(["stop", "length", "load", "unload"]).optional().describe(
    "load, unload: there was no prompt",
  ),
}).meta({ id: "OllamaGenerateAnswer" });

const nameFields = {
  name: z.string(),
  model: z.string(),
  size: z.literal(0),
  digest: z.string(),
  details: z.looseObject({}),
};

export const ollamaTagsSchema = z.strictObject({
  models: z.array(z.strictObject({ ...nameFields, modified_at: z.string() })),
}).meta({ id: "OllamaTags" });

export const ollamaProcessesSchema = z.strictObject({
  models: z.array(z.strictObject({
    ...nameFields,
    expires_at: z.string(),
    size_vram: z.literal(0),
    context_length: z.int().optional().describe("Of the root, where it is known"),
  })),
}).meta({ id: "OllamaProcesses" });

export const ollamaShownSchema = z.strictObject({
  modified_at: z.string(),
  modelfile: z.string(),
  parameters: z.string(),
  template: z.string(),
  details: z.looseObject({}),
  model_info: z.record(z.string(), z.union([z.string(), z.number()])),
  capabilities: z.array(z.enum(["completion", "tools"])),
}).meta({ id: "OllamaShown" });

export const ollamaVersionSchema = z.strictObject({ version: z.string() }).meta({ id: "OllamaVersion" });

export const ollamaErrorSchema = z.strictObject({ error: z.string() }).meta({ id: "OllamaError" });
