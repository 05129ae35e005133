import { loadConfig } from "../../cfgs/load/load.ts";
import { type Server, serverUrl } from "./client.ts";
import { findConfigFile } from "./config_file.ts";
import type { Io } from "./io.ts";
import { reachableUrl } from "./router/local_router.ts";

/** Where a Canopy listens unless its configuration says otherwise. */
export const DEFAULT_URL = "http://127.0.0.1:8000";

/** The option of commands that ask a running server. */
export const URL_OPTION = {
  url: {
    type: "text",
    value: "URL",
    help: "A running server; by default CANOPY_URL, else that of this folder",
  },
} as const;

/** The server that a command asks: the named one, CANOPY_URL's, that of this folder's configuration, or the usual one. */
export function serverOf(given: string | undefined, io: Io): Server {
  const apiKey = io.env.CANOPY_API_KEY;
  const named = given ?? io.env.CANOPY_URL;
  if (named !== undefined) return { url: serverUrl(named), apiKey };
  const file = findConfigFile(io);
  return { url: file === undefined ? DEFAULT_URL : configuredUrl(file, io), apiKey };
}

/** Where a configuration says that it is served; the usual place when it cannot be read, which is told by others. */
export function configuredUrl(file: string, io: Io): string {
  try {
    const { host, port, tls } = loadConfig({ path: file, env: io.env, overrides: [] }).config.server;
    const scheme = tls === undefined ? "http" : "https";
    return reachableUrl(`${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`);
  } catch {
    return DEFAULT_URL;
  }
}
