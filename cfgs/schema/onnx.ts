import { z } from "zod";

/** Settings of an embedded model; all have defaults. */
export const modelOnnxSchema = z.strictObject({
  file: z.string().min(1).optional().describe(
    "Its ONNX file, such as onnx/model_q4.onnx; by default the one that a CPU runs fastest",
  ),
  revision: z.string().min(1).default("main").describe("Branch, tag or commit on the Hub"),
  threads: z.int().min(1).optional().describe("Threads that compute; by default models share all cores"),
  cache_bytes: z.int().min(1).default(2 * 1024 ** 3).describe(
    "Memory for the keys and values of prompts and answers",
  ),
  background: z.boolean().default(true).describe(
    "Lets the router and all other programs go first where cores are scarce (Linux); false: an equal share",
  ),
  max_running: z.int().min(1).default(16).describe("Sequences that are computed side by side; others wait"),
}).describe("How an embedded model (engine onnx) is loaded");
