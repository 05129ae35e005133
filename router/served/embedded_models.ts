import { availableParallelism } from "node:os";
import type { Clock } from "../../base/clock.ts";
import { logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import type { TextTokenizer } from "../../embedded/http/detokenizer.ts";
import { EmbeddedServer } from "../../embedded/http/server.ts";
import { embeddedModels, startModel, threadsOf } from "../../embedded/models.ts";
import type { WorkerGenerator } from "../../embedded/thread/worker_generator.ts";
import type { Environment } from "../../ml/hub/environment.ts";
import { loadTokenizer } from "../../ml/tokenizers/hf_tokenizer.ts";
import type { MemoryHandler } from "../transport/memory.ts";
import { insideUrl, RoutedTransport } from "../transport/routed.ts";

/** The embedded models of a configuration while they run. */
export interface RunningModels {
  /** The configuration with their addresses and tokenizers. */
  readonly config: Config;
  /** The way to them and to all other workers. */
  readonly transport: Transport;
  close(): Promise<void>;
}

/** What embedded models are loaded with. */
export interface EmbeddedModelsOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** The way to all other workers, and to tokenizers that are not beside the weights. */
  readonly transport: Transport;
  readonly env: Environment;
  readonly signal: AbortSignal;
  /** In the place of the one that lies beside the weights, or that the configuration names. */
  readonly tokenizer?: TextTokenizer;
}

/**
 * Loads the embedded models of a configuration. Without any, both it and the transport stay as they are.
 * Throws 500 `weights_unavailable` and `unsupported_export`.
 */
export async function startEmbeddedModels(
  config: Config,
  options: EmbeddedModelsOptions,
): Promise<RunningModels> {
  const { clock, random, env, signal } = options;
  const found = await embeddedModels(config, env);
  if (found.length === 0) return { config, transport: options.transport, close: () => Promise.resolve() };
  const threads = threadsOf(availableParallelism(), found.length);
  const log = logger("embedded");
  const servers = new Map<string, MemoryHandler>();
  const generators: WorkerGenerator[] = [];
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
      const tokenizer = options.tokenizer ?? await loadTokenizer(source, { transport, signal, env });
      const generator = await startModel(model, { clock, log, threads });
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
      const { file, maxContextTokens } = generator.facts;
      log.info("{model}: {file}, {tokens} tokens of context, {threads} threads", {
        model: model.config.model,
        file,
        tokens: maxContextTokens,
        threads: generator.facts.threads,
      });
    }
    return { config: { ...config, models }, transport, close };
  } catch (error) {
    await close();
    throw error;
  }
}
