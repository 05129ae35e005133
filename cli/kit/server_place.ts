import { loadConfig } from "../../cfgs/load/load.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import { apiKeysOf } from "../../cfgs/schema/limits.ts";
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
  const named = given ?? io.env.CANOPY_URL;
  return named === undefined
    ? configuredServer(findConfigFile(io), io)
    : { url: serverUrl(named), apiKey: io.env.CANOPY_API_KEY };
}

/**
 * Where a configuration says that it is served, with CANOPY_API_KEY's key or else one of its own; the usual place when
 * there is none, or it cannot be read, which is told by others.
 */
export function configuredServer(file: string | undefined, io: Io): Server {
  const apiKey = io.env.CANOPY_API_KEY;
  if (file === undefined) return { url: DEFAULT_URL, apiKey };
  try {
    const { server } = loadConfig({ path: file, env: io.env, overrides: [] }).config;
    return { url: addressOf(server), apiKey: apiKey ?? ownKeyOf(server) };
  } catch {
    return { url: DEFAULT_URL, apiKey };
  }
}

/** The address at which this host reaches the server of a configuration. */
export function addressOf({ host, port, tls }: Pick<Config["server"], "host" | "port" | "tls">): string {
  const scheme = tls === undefined ? "http" : "https";
  return reachableUrl(`${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`);
}

/** The key of a configuration that may do the most; undefined where everybody may ask. */
export function ownKeyOf(server: Config["server"]): string | undefined {
  return server.admin_key ?? server.admin_keys[0] ?? apiKeysOf(server)[0];
}
