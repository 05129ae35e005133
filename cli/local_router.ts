import type { Config } from "../cfgs/schema.ts";
import { createRouter, type Router } from "../router/router.ts";
import { version } from "./version.ts";
import type { Io } from "./io.ts";

/** Starts a router in this process and listens; `port` 0 takes any free one. Close it in a `finally`. */
export async function startRouter(
  config: Config,
  io: Io,
  address: { readonly host: string; readonly port: number },
): Promise<{ router: Router; url: string }> {
  const { clock, transport } = io;
  const router = await createRouter({
    config,
    clock,
    random: io.random.stream("router"),
    transport,
    version,
  });
  try {
    const { url } = await router.listen(address);
    return { router, url };
  } catch (error) {
    await router.close();
    throw error;
  }
}

/** The address by which this host reaches a server: one that listens everywhere is reached on the loopback. */
export function reachableUrl(url: string): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}
