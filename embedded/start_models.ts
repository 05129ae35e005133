import { availableParallelism } from "node:os";
import type { Clock } from "../base/clock.ts";
import { type Logger, logger } from "../base/log.ts";
import type { Random } from "../base/random.ts";
import type { Transport } from "../base/transport.ts";
import type { Config, ModelConfig } from "../cfgs/schema/config.ts";
import { modelOnnxSchema } from "../cfgs/schema/onnx.ts";
import { EmbeddedServer } from "./http/server.ts";
import { type EmbeddedFiles, findModel } from "./model/model_files.ts";
import { Precedence } from "./scheduler/precedence.ts";
import { WorkerGenerator } from "./thread/worker_generator.ts";
import { startDecoderThread } from "./thread/worker_thread.ts";
import type { Environment } from "../ml/hub/environment.ts";
import { CHECK_TEXTS } from "../ml/onnx/check_numbers.ts";
import { PRODUCTS_TEXTS } from "../ml/onnx/products.ts";
import { loadTokenizer } from "../ml/tokenizers/hf_tokenizer.ts";
import type { ModelTokenizer } from "../ml/tokenizers/model_tokenizer.ts";
import type { MemoryHandler } from "../router/transport/memory.ts";
import { insideUrl, RoutedTransport } from "../router/transport/routed.ts";

/** Sequences of one model at once, those that wait counted: more than a worker ever has in flight. */
const MAX_SEQUENCES = 1024;

/** The embedded models of a configuration while they run. */
export interface RunningModels {
  /** The configuration with their addresses and tokenizers. */
  readonly config: Config;
  /** The way to them and to all other workers. */
  readonly transport: Transport;
  close(): Promise<void>;
}

/** Options of `startEmbeddedModels`. */
export interface EmbeddedModelsOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** The way to all other workers, and to tokenizers that are not beside the weights. */
  readonly transport: Transport;
  readonly env: Environment;
  readonly signal: AbortSignal;
  /** In the place of the one that lies beside the weights, or that the configuration names. */
  readonly tokenizer?: ModelTokenizer | undefined;
}

/**
 * Loads the embedded models of a configuration, each into a thread of its own, and puts a server without a port in
 * front of each. Without any, both the configuration and the transport stay as they are.
 * Throws 500 `weights_unavailable`, `unsupported_export` or `cache_too_small`.
 */
export async function startEmbeddedModels(
  config: Config,
  options: EmbeddedModelsOptions,
): Promise<RunningModels> {
  const { clock, random, env, signal } = options;
  const found = await embeddedModels(config, env);
  if (found.length === 0) return { config, transport: options.transport, close: () => Promise.resolve() };
  // All cores, shared among the models: the router's own thread sleeps while they work.
  const threads = Math.max(1, Math.floor(availableParallelism() / found.length));
  const log = logger("embedded");
  const servers = new Map<string, MemoryHandler>();
  const generators: WorkerGenerator[] = [];
  const used = found.reduce((sum, { config }) => sum + (config.onnx?.threads ?? threads), 0);
  // Where each has cores of its own, nobody gains by another one's pause.
  const precedence = used > availableParallelism() ? new Precedence() : undefined;
  const models = { ...config.models };
  const transport = new RoutedTransport(servers, options.transport);
  const close = async () => {
    await Promise.all(generators.map((generator) => generator.close()));
    await transport.close();
  };
  try {
    for (const [index, model] of found.entries()) {
      const { key, files } = model;
      const source = typeof model.config.tokenizer === "string" ? model.config.tokenizer : files.folder;
      const tokenizer = options.tokenizer ?? await loadTokenizer(source, { transport, signal, env, clock });
      const generator = await startModel(model, { clock, log, threads, tokenizer, precedence });
      generators.push(generator);
      const server = new EmbeddedServer({
        model: model.config.model,
        generator,
        tokenizer,
        endIds: files.endIds,
        defaults: files.defaults,
        clock,
        random: random.stream(`embedded/${key}`),
      });
      const url = insideUrl(key, index);
      servers.set(new URL(url).hostname, (request, signal) => server.handle(request, signal));
      models[key] = { ...model.config, workers: [url], tokenizer: model.config.tokenizer ?? source };
      const { file, maxContextTokens, threads: used, arithmetic } = generator.facts;
      log.info("{model}: {file}, {tokens} tokens of context, {threads} threads, {products}", {
        model: model.config.model,
        file,
        tokens: maxContextTokens,
        threads: used,
        products: PRODUCTS_TEXTS[arithmetic.products],
      });
    }
    return { config: { ...config, models }, transport, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** An embedded model of a configuration; `key` is its name in `models`. */
interface EmbeddedModel {
  readonly key: string;
  readonly config: ModelConfig;
  readonly files: EmbeddedFiles;
}

async function embeddedModels(config: Config, env: Environment): Promise<EmbeddedModel[]> {
  const found: EmbeddedModel[] = [];
  for (const [key, model] of Object.entries(config.models)) {
    if (model.engine !== "onnx") continue;
    const { revision, file } = model.onnx ?? modelOnnxSchema.parse({});
    found.push({ key, config: model, files: await findModel({ model: model.model, revision, file }, env) });
  }
  return found;
}

function startModel(
  { config, files }: EmbeddedModel,
  { clock, log, threads, tokenizer, precedence }: {
    readonly clock: Clock;
    readonly log: Logger;
    readonly threads: number;
    readonly tokenizer: ModelTokenizer;
    readonly precedence: Precedence | undefined;
  },
): Promise<WorkerGenerator> {
  const onnx = config.onnx ?? modelOnnxSchema.parse({});
  return WorkerGenerator.start({
    clock,
    log,
    start: startDecoderThread,
    precedence,
    maxSequences: MAX_SEQUENCES,
    decoder: {
      model: config.model,
      path: files.path,
      threads: onnx.threads ?? threads,
      cacheBytes: onnx.cache_bytes,
      maxContextTokens: Math.min(config.context_tokens ?? Infinity, files.contextTokens),
      maxRunning: onnx.max_running,
      background: onnx.background,
      check: { folder: files.folder, texts: CHECK_TEXTS.map((text) => tokenizer.encode(text)) },
    },
  });
}
