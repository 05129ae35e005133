import { availableParallelism } from "node:os";
import { messageOf } from "../../../base/errors.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import type { Io } from "../io.ts";
import { loadAnyTokenizer } from "./load_any_tokenizer.ts";
import { makeSpans } from "./make_spans.ts";
import { makeEarlyExit } from "./make_early_exit.ts";
import { openArchive } from "./open_archive.ts";
import { version } from "../version.ts";
import { WorkerNetwork } from "./worker_network.ts";
import { startEmbeddedModels } from "../../../embedded/start_models.ts";
import { createRouter, type Router, type RouterOptions } from "../../../router/router.ts";
import { ThreadedRouter } from "./threaded_router.ts";

/** Starts a router in this process and listens; `port` 0 takes any free one. Close it in a `finally`. */
export async function startRouter(
  config: Config,
  io: Io,
  address: { readonly host: string; readonly port: number },
): Promise<{ router: Router; url: string }> {
  const { clock } = io;
  const network = new WorkerNetwork(config, io.transport);
  const embedded = await startEmbeddedModels(config, {
    clock,
    random: io.random,
    transport: network.transport,
    env: io.env,
    signal: io.stop,
  });
  const { transport } = embedded;
  const threads = threadsOf(config);
  const earlyExit = makeEarlyExit(config, io, { leads: threads > 1 });
  const spans = await makeSpans(config, io);
  const archive = await openArchive(config, io);
  let made: Router | undefined;
  const close = async () => {
    await made?.close();
    await archive?.close();
    await spans?.close();
    await earlyExit.close();
    await embedded.close();
    await network.close();
  };
  const options: RouterOptions = {
    config: embedded.config,
    clock,
    random: io.random.stream("router"),
    transport,
    version,
    earlyExit: earlyExit.services,
    spans,
    archive,
    loadTokenizer: (source) => loadAnyTokenizer(source, { transport, signal: io.stop, env: io.env, clock }),
  };
  try {
    const threaded = threads === 1
      ? undefined
      : new ThreadedRouter({ ...options, threads, address, means: io });
    made = threaded?.router ?? createRouter(options);
    const { url } = await (threaded?.listen() ?? made.listen(address));
    await listenForMetrics(made, config, io);
    const { reconfigure } = made;
    return {
      router: {
        ...made,
        close,
        reconfigure: (next) => {
          const change = network.prepare(next);
          reconfigure(withRunning(next, embedded.config));
          change.commit();
        },
      },
      url,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A configuration with the addresses of the models in this process, which are those of the start. */
function withRunning(config: Config, { models: running }: Config): Config {
  const models = Object.entries(config.models).map(
    ([name, model]) => [name, model.engine === "onnx" ? running[name] ?? model : model] as const,
  );
  return { ...config, models: Object.fromEntries(models) };
}

/** Threads that are to serve. */
function threadsOf({ server: { workers } }: Config): number {
  return workers === "auto" ? availableParallelism() : workers;
}

/** The port for metrics, where there is one; a standard one that is taken is told, and done without. */
async function listenForMetrics(router: Router, { server: { metrics } }: Config, io: Io): Promise<void> {
  if (metrics === undefined) return;
  try {
    const { url } = await router.listenForMetrics(metrics);
    io.out.write(`Metrics are at ${url}/metrics\n`);
  } catch (error) {
    if (metrics.required) throw error;
    io.err.write(`Metrics are on the main port only: ${messageOf(error)}\n`);
  }
}

/** The address by which this host reaches a server: one that listens everywhere is reached on the loopback. */
export function reachableUrl(url: string): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}
