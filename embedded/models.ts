import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { Config, ModelConfig } from "../cfgs/schema/config.ts";
import { modelOnnxSchema } from "../cfgs/schema/onnx.ts";
import { type EmbeddedFiles, findModel } from "./model/model_files.ts";
import { WorkerGenerator } from "./thread/worker_generator.ts";
import { startDecoderThread } from "./thread/worker_thread.ts";
import type { Environment } from "../ml/hub/environment.ts";

/** Sequences of one model at once, those that wait counted: as many as a worker may have in flight, with room to spare. */
const MAX_SEQUENCES = 1024;

/** An embedded model of a configuration. */
export interface EmbeddedModel {
  /** Its key in `models`. */
  readonly key: string;
  readonly config: ModelConfig;
  readonly files: EmbeddedFiles;
}

/** The embedded models of a configuration with their files. Throws 500 `weights_unavailable`. */
export async function embeddedModels(config: Config, env: Environment): Promise<EmbeddedModel[]> {
  const found: EmbeddedModel[] = [];
  for (const [key, model] of Object.entries(config.models)) {
    if (model.engine !== "onnx") continue;
    const { revision, file } = model.onnx ?? modelOnnxSchema.parse({});
    found.push({ key, config: model, files: await findModel({ model: model.model, revision, file }, env) });
  }
  return found;
}

/**
 * Threads of each model, unless its configuration says otherwise: all cores, shared among the models. The router's own
 * thread sleeps while they work.
 */
export function threadsOf(cores: number, models: number): number {
  return Math.max(1, Math.floor(cores / Math.max(1, models)));
}

/** Loads a model into a thread of its own. Throws 500 when it cannot be used. */
export async function startModel(
  { config, files }: EmbeddedModel,
  options: { readonly clock: Clock; readonly log: Logger; readonly threads: number },
): Promise<WorkerGenerator> {
  const { context_tokens: contextTokens } = config;
  const onnx = config.onnx ?? modelOnnxSchema.parse({});
  return await WorkerGenerator.start({
    clock: options.clock,
    log: options.log,
    start: startDecoderThread,
    maxSequences: MAX_SEQUENCES,
    decoder: {
      model: config.model,
      path: files.path,
      threads: onnx.threads ?? options.threads,
      cacheBytes: onnx.cache_bytes,
      maxContextTokens: Math.min(contextTokens ?? Infinity, files.contextTokens),
      maxRunning: onnx.max_running,
    },
  });
}
