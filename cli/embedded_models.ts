import { availableParallelism } from "node:os";
import { logger } from "../base/log.ts";
import type { Config } from "../cfgs/schema.ts";
import { embeddedModels, startModel, threadsOf } from "../embedded/models.ts";
import { EmbeddedServer } from "../embedded/server.ts";
import type { WorkerGenerator } from "../embedded/worker_generator.ts";
import { loadTokenizer } from "../router/engines/hf_tokenizer.ts";
import type { MemoryHandler } from "../router/transport/memory.ts";
import { insideUrl, RoutedTransport } from "../router/transport/routed.ts";
import type { Transport } from "../base/transport.ts";
import type { Io } from "./io.ts";

/** The embedded models of a configuration while they run. */
export interface RunningModels {
  /** The configuration with their addresses and tokenizers. */
  readonly config: Config;
  /** The way to them and to all other workers. */
  readonly transport: Transport;
  close(): Promise<void>;
}

/**
 * Loads the embedded models of a configuration. Without any, both it and the transport stay as they are.
 * Throws 500 `weights_unavailable` and `unsupported_export`.
 */
export async function startEmbeddedModels(
  config: Config,
  io: Pick<Io, "clock" | "random" | "transport" | "env" | "stop">,
): Promise<RunningModels> {
  const found = await embeddedModels(config, io.env);
  if (found.length === 0) return { config, transport: io.transport, close: () => Promise.resolve() };
  const threads = threadsOf(availableParallelism(), found.length);
  const log = logger("embedded");
  const servers = new Map<string, MemoryHandler>();
  const generators: WorkerGenerator[] = [];
  const models = { ...config.models };
  const transport = new RoutedTransport(servers, io.transport);
  const close = async () => {
    await Promise.all(generators.map((generator) => generator.close()));
    await transport.close();
  };
  try {
    for (const [index, model] of found.entries()) {
      const { key, files } = model;
      const source = typeof model.config.tokenizer === "string" ? model.config.tokenizer : files.folder;
      const tokenizer = await loadTokenizer(source, { transport, signal: io.stop, env: io.env });
      const generator = await startModel(model, { clock: io.clock, log, threads });
      generators.push(generator);
      const server = new EmbeddedServer({
        model: model.config.model,
        generator,
        tokenizer,
        endIds: files.endIds,
        defaults: files.defaults,
        clock: io.clock,
        random: io.random.stream(`embedded/${key}`),
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
