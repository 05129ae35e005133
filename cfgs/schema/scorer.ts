import { z } from "zod";

/** The embedding model that compares answers. */
export const scorerSchema = z.strictObject({
  embedder: z.enum(["auto", "onnx", "http", "lexical"]).default("auto").describe(
    "onnx: a model in this process; http: an engine's embedding endpoint; lexical: no model, words only; auto: onnx where its weights are present, else lexical",
  ),
  model: z.string().min(1).default("onnx-community/Qwen3-Embedding-0.6B-ONNX").describe(
    "Hub id or folder (onnx), or the model's name at the endpoint (http)",
  ),
  revision: z.string().min(1).default("main").describe("Of the Hub repository"),
  file: z.string().min(1).optional().describe(
    "The ONNX file, such as onnx/model_int8.onnx; default: the one that this CPU runs fastest",
  ),
  url: z.string().min(1).optional().describe("http: base address, such as http://gpu1:8000"),
  api_key: z.string().min(1).optional().describe("http: bearer token"),
  threads: z.int().min(1).optional().describe("Threads of the model; default: all cores but one"),
  span: z.enum(["all", "tail"]).default("all").describe(
    "What of a long answer is embedded: its beginning, or its end",
  ),
  max_tokens: z.int().min(8).default(2_048).describe("Longest text, in tokens"),
  max_cached_tokens: z.int().min(8).default(8_192).describe(
    "Tokens of unfinished answers that are kept in the model's cache; answers beyond are embedded when they are complete",
  ),
  max_queued: z.int().min(1).default(256).describe("Answers that may wait; further ones are not compared"),
  whitening: z.string().min(1).optional().describe("Calibration file for whitened cosine"),
});

/** A checked scorer section, with all defaults filled in. */
export type ScorerConfig = z.infer<typeof scorerSchema>;
