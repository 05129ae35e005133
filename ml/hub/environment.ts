import { homedir } from "node:os";
import { join } from "node:path";

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Default of `HF_ENDPOINT`, where model files are fetched from. */
const DEFAULT_ENDPOINT = "https://huggingface.co";

/** The folder of all that Hugging Face's programs keep on this machine (`HF_HOME`). */
export function hubHome(env: Environment): string {
  return env["HF_HOME"] || join(env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "huggingface");
}

/** The folder where models from the Hub are kept on this machine (`HF_HUB_CACHE`, `HF_HOME`). */
export function hubCache(env: Environment): string {
  return env["HF_HUB_CACHE"] || join(hubHome(env), "hub");
}

/** Address of the Hub or of a mirror of it (`HF_ENDPOINT`), without a slash at its end. */
export function hubEndpoint(env: Environment): string {
  return (env["HF_ENDPOINT"] || DEFAULT_ENDPOINT).replace(/\/+$/, "");
}

/** True when nothing may be fetched (`HF_HUB_OFFLINE`). */
export function hubIsOffline(env: Environment): boolean {
  return /^(1|true|yes|on)$/i.test(env["HF_HUB_OFFLINE"] ?? "");
}
