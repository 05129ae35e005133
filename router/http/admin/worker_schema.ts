import { z } from "zod";

/** A worker to add, in the names of SGLang's own gateways; their other fields are let through. */
export const newWorkerSchema = z.looseObject({
  url: z.url({ protocol: /^https?$/ }).describe("Base URL of the server"),
  model: z.string().min(1).optional().describe(
    "The model that it serves; may be left out where there is one only",
  ),
  model_id: z.string().min(1).optional().describe("Another name of `model`"),
  worker_type: z.enum(["regular", "prefill", "decode"]).default("regular").describe("Its half of the work"),
  api_key: z.string().min(1).optional().describe("Bearer token for this worker only"),
  bootstrap_port: z.int().min(1).max(65_535).nullish().describe(
    "Port of a prefill server's bootstrap registry",
  ),
  bootstrap_host: z.string().min(1).nullish().describe(
    "Its name for decode servers, if not the one in its URL",
  ),
});

/** A change to a worker. */
export const workerChangeSchema = z.strictObject({
  draining: z.boolean().describe("true: no new work; false: work as before"),
});
