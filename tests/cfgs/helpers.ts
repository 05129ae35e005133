import {
  loadCheckedConfig,
  loadConfig,
  type LoadConfigOptions,
  type LoadedConfig,
} from "../../cfgs/load/load.ts";
import { ConfigError } from "../../cfgs/load/problems.ts";

/** Loads a text under the name `canopy.jsonc`. */
export function load(text: string, options: Partial<LoadConfigOptions> = {}): LoadedConfig {
  return loadConfig({ path: "canopy.jsonc", text, env: {}, ...options });
}

/** The lines that loading and checking a text complains with, warnings included; empty when all is well. */
export function complaints(text: string, options: Partial<LoadConfigOptions> = {}): string[] {
  try {
    const loaded = loadCheckedConfig({ path: "canopy.jsonc", text, env: {}, ...options });
    return loaded.warnings.map((warning) => `${warning.severity}: ${warning.message}`);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
}

/** A config with the models `4b` and `8b`, and the given graphs, prompts and model fields. */
export function configText(
  parts: {
    graphs?: unknown;
    prompts?: unknown;
    models?: Record<string, unknown>;
    server?: unknown;
    scorer?: unknown;
  },
): string {
  const model = (size: string) => ({
    model: `Qwen/Qwen3-${size}`,
    engine: "vllm",
    workers: [`http://127.0.0.1:${size === "4B" ? 8000 : 8001}`],
  });
  return JSON.stringify({ ...parts, models: parts.models ?? { "4b": model("4B"), "8b": model("8B") } });
}
