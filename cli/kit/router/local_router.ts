import type { Config } from "../../../cfgs/schema/config.ts";
import type { Io } from "../io.ts";
import { loadAnyTokenizer } from "./load_any_tokenizer.ts";
import { makeEarlyExit } from "./make_early_exit.ts";
import { version } from "../version.ts";
import { startEmbeddedModels } from "../../../embedded/start_models.ts";
import { createRouter, type Router } from "../../../router/router.ts";

/** Starts a router in this process and listens; `port` 0 takes any free one. Close it in a `finally`. */
export async function startRouter(
  config: Config,
  io: Io,
  address: { readonly host: string; readonly port: number },
): Promise<{ router: Router; url: string }> {
  const { clock } = io;
  const embedded = await startEmbeddedModels(config, {
    clock,
    random: io.random,
    transport: io.transport,
    env: io.env,
    signal: io.stop,
  });
  const earlyExit = makeEarlyExit(config, io);
  let made: Router | undefined;
  const close = async () => {
    await made?.close();
    await earlyExit.close();
    await embedded.close();
  };
  try {
    made = createRouter({
      config: embedded.config,
      clock,
      random: io.random.stream("router"),
      transport: embedded.transport,
      version,
      earlyExit: earlyExit.services,
      loadTokenizer: (source) =>
        loadAnyTokenizer(source, { transport: embedded.transport, signal: io.stop, env: io.env, clock }),
    });
    const { url } = await made.listen(address);
    return { router: { ...made, close }, url };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The address by which this host reaches a server: one that listens everywhere is reached on the loopback. */
export function reachableUrl(url: string): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}
