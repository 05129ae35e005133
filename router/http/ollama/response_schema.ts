import { z } from "zod";

export const ollamaAnswerSchema = z.strictObject({
  model: z.string(),
  created_at: z.string(),
  message: z.strictObject({
    role: z.literal("assistant"),
    content: z.string(),
    thinking: z.string().optional(),
    tool_calls: z.array(z.strictObject({
      id: z.string(),
      function: z.strictObject({ index: z.int(), name: z.string(), arguments: z.unknown() }),
    })).optional(),
  }),
  done: z.boolean(),
  done_reason: z.enum(["stop", "length"]).optional(),
  prompt_eval_count: z.int().optional().describe("Of all calls of the run"),
  eval_count: z.int().optional().describe("Of all calls of the run"),
}).meta({ id: "OllamaChatAnswer" });

export const ollamaTagsSchema = z.strictObject({
  models: z.array(z.strictObject({
    name: z.string(),
    model: z.string(),
    modified_at: z.string(),
    size: z.literal(0),
    digest: z.string(),
    details: z.looseObject({}),
  })),
}).meta({ id: "OllamaTags" });

export const ollamaVersionSchema = z.strictObject({ version: z.string() }).meta({ id: "OllamaVersion" });

export const ollamaErrorSchema = z.strictObject({ error: z.string() }).meta({ id: "OllamaError" });
