import type { LoadedConfig, Provenance } from "./load.ts";
import { type ConfigPath, formatPath } from "../schema/config_path.ts";
import { shownSecret } from "../schema/secrets.ts";

/** One value of the configuration in use. */
export interface EffectiveValue {
  readonly path: string;
  /** `"***"` for a secret. */
  readonly value: unknown;
  /** `canopy.jsonc:12`, `--port`, `CANOPY_SERVER_PORT`, `the moa-vllm format`, or `default`. */
  readonly origin: string;
}

/** Every value of the configuration in use, and where it came from. */
export function effectiveValues(loaded: Pick<LoadedConfig, "config" | "provenance">): EffectiveValue[] {
  return [...leaves(loaded.config, [])].map(({ path, value }) => ({
    path: formatPath(path),
    value: shownSecret(value, path),
    origin: originText(loaded.provenance(path)),
  }));
}

/** One line for each value: `server.port = 9000  # --port`. Secrets are hidden. */
export function effectiveText(loaded: LoadedConfig): string {
  return effectiveValues(loaded)
    .map(({ path, value, origin }) => `${path} = ${JSON.stringify(value)}  # ${origin}\n`)
    .join("");
}

function originText(from: Provenance): string {
  if (from.kind === "file") return `${from.location.file}:${from.location.line}`;
  if (from.kind === "format") return `the ${from.name} format`;
  return from.kind === "default" ? "default" : from.name;
}

function* leaves(value: unknown, path: ConfigPath): Generator<{ path: ConfigPath; value: unknown }> {
  const children = Array.isArray(value)
    ? [...value.entries()]
    : typeof value === "object" && value !== null
    ? Object.entries(value)
    : [];
  if (children.length === 0 && value !== undefined) yield { path, value };
  for (const [key, item] of children) yield* leaves(item, [...path, key]);
}
