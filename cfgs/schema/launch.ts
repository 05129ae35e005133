import { z } from "zod";

const version = z.string().regex(/^\d+(\.\d+)+/, "must be a version, such as 0.5.18").describe(
  "Version of the engine, which decides its flags; default: the installed one",
);
const command = z.array(z.string().min(1)).min(1).describe(
  'Starts the engine, before its options, such as ["/opt/vllm/bin/vllm", "serve"]',
);
const image = z.string().min(1).describe(
  "Container image that has the engine; the engine is run with docker",
);
/** No process can be given a zero byte. */
const word = z.string().regex(/^[^\0]*$/, "must not hold a zero byte");
const extraArgs = z.array(word).default([]).describe("Passed to the engine after all other options");
const environment = z.record(
  z.string().regex(/^[A-Za-z_]\w*$/, "must be a name of letters, digits and underscores"),
  word,
).default({}).describe("Environment of the engine");
const device = z.enum(["gpu", "cpu"]);

/** Start of the engines of one family. */
export const engineLaunchSchema = z.strictObject({
  version: version.optional(),
  command: command.optional(),
  image: image.optional(),
  extra_args: extraArgs,
  env: environment,
});

/** Start of the engines of one model; wins over its family. */
export const modelLaunchSchema = z.strictObject({
  weights: z.string().min(1).optional().describe(
    "Hub id or folder of the weights, where it is not `model`; the engine still answers to `model`",
  ),
  replicas: z.int().min(1).max(64).default(1).describe("Engines, or pairs, that share the model's requests"),
  tensor_parallel: z.int().min(1).max(64).optional().describe(
    "GPUs of each engine; default: as few as hold it",
  ),
  nodes: z.int().min(1).max(64).default(1).describe(
    "Hosts that each engine spans; more than one only where files for Kubernetes or Slurm are written",
  ),
  gpus: z.array(z.int().min(0)).min(1).optional().describe("Indexes of the GPUs that may be used"),
  memory_fraction: z.number().gt(0).max(1).optional().describe(
    "Share of each GPU's memory for the engine; default: what the plan computes",
  ),
  kv_cache_dtype: z.enum(["auto", "fp8"]).default("auto").describe("Type of keys and values in the cache"),
  device: device.optional().describe("cpu: run without a GPU, for tests"),
  version: version.optional(),
  command: command.optional(),
  image: image.optional(),
  extra_args: extraArgs,
  prefill_args: z.array(word).default([]).describe("Passed to prefill servers only"),
  decode_args: z.array(word).default([]).describe("Passed to decode servers only"),
  env: environment,
});

/** Start of engines on this host, where no model says otherwise. */
export const launchSchema = z.strictObject({
  base_port: z.int().min(1024).max(65_000).default(30_000).describe(
    "First port of engines whose address is not given",
  ),
  bootstrap_port: z.int().min(1024).max(65_000).default(8_998).describe(
    "First port of SGLang's bootstrap registries",
  ),
  side_channel_port: z.int().min(1024).max(65_000).default(5_600).describe(
    "First port of vLLM's NIXL side channels",
  ),
  device: device.default("gpu").describe("cpu: run all engines without a GPU, for tests"),
  gpus: z.array(z.int().min(0)).min(1).optional().describe("Indexes of the GPUs that may be used"),
  model_cache: z.string().min(1).optional().describe(
    "Folder of the Hub's cache that containers share; default: HF_HOME, or ~/.cache/huggingface",
  ),
  sglang: engineLaunchSchema.prefault({}).describe("How SGLang is started"),
  vllm: engineLaunchSchema.prefault({}).describe("How vLLM is started"),
  sim_args: z.array(word).default([]).describe(
    'Options of the simulated engines of a rehearsal (--engine sim), such as ["--speedup", "100"]',
  ),
});

export type ModelLaunch = z.infer<typeof modelLaunchSchema>;
export type EngineLaunch = z.infer<typeof engineLaunchSchema>;
export type Launch = z.infer<typeof launchSchema>;
