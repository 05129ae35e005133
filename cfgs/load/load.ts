import { checkConfig } from "../check/check_config.ts";
import type { ConfigFormat } from "../formats/format.ts";
import { type AppliedOverride, applyOverrides, type Override, overrideOf } from "./overrides.ts";
import { ConfigError, type ConfigProblem, type Location, problemOf } from "./problems.ts";
import { type ConfigSource, readConfig } from "./read_config.ts";
import { type Config, configSchema } from "../schema/config.ts";
import { type ConfigPath, formatPath, isWithin, valueAt } from "../schema/config_path.ts";
import { type ConfigFinding, explain } from "../schema/explain.ts";

/** Source of a configuration, and what to put over it. */
export interface LoadConfigOptions extends ConfigSource {
  /** Environment variables; those that start with `CANOPY_`, and the ones that `api_key_env` names, are used. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** In the order of the command line; the last one wins. */
  readonly overrides?: readonly Override[] | undefined;
}

/** Origin of a value of the configuration. */
export type Provenance =
  | { readonly kind: "file"; readonly location: Location }
  /** A configuration that was given as a value, under this name. */
  | { readonly kind: "value"; readonly name: string }
  | { readonly kind: "env"; readonly name: string }
  | { readonly kind: "flag"; readonly name: string }
  /** A value that the reader of another format adds, such as MoA-vllm's repetition penalty. */
  | { readonly kind: "format"; readonly name: ConfigFormat }
  | { readonly kind: "default" };

/** A configuration that has the right shape; `checkLoaded` says whether it makes sense. */
export interface LoadedConfig {
  /** All defaults filled in, `api_key_env` looked up. */
  readonly config: Config;
  /** The file or preset, as the user would know it. */
  readonly source: string;
  readonly format: ConfigFormat;
  /** Warnings of the reader of another format, and of keys that are not set. */
  readonly warnings: readonly ConfigProblem[];
  /** Place of a value in the file, or of the nearest thing around it; undefined for what a flag or variable has set. */
  locate(path: ConfigPath): Location | undefined;
  provenance(path: ConfigPath): Provenance;
}

/** Reads a configuration in any of the formats and checks its shape. Throws `ConfigError` with all problems. */
export function loadConfig(options: LoadConfigOptions): LoadedConfig {
  const read = readConfig(options);
  const { source, format } = read;
  const overridden = applyOverrides(read.value, options.env, options.overrides ?? []);
  const { applied } = overridden;
  const placed = (finding: ConfigFinding): ConfigProblem => {
    const by = overrideOf(applied, finding.path) ?? makerOf(applied, read.value, finding.path);
    if (by !== undefined) return problemOf(finding, by.name);
    return problemOf(finding, source, read.locate(finding.path, finding.atKey) ?? read.locate([]));
  };
  const problems = [
    ...overridden.problems.map((finding) => problemOf(finding, finding.origin)),
    ...explain(configSchema, overridden.value).map(placed),
  ];
  if (problems.length > 0) throw new ConfigError(problems);

  const { config, applied: keys, findings } = lookUpKeys(configSchema.parse(overridden.value), options.env);
  const all: readonly AppliedOverride[] = [...applied, ...keys];
  return {
    config,
    source,
    format,
    warnings: [...read.warnings, ...findings.map(placed)],
    locate: (path) => overrideOf(all, path) === undefined ? read.locate(path) : undefined,
    provenance: (path) => {
      const by = overrideOf(all, path);
      if (by !== undefined) return { kind: by.kind, name: by.name };
      if (read.has(path)) {
        const location = read.locate(path);
        return location === undefined ? { kind: "value", name: source } : { kind: "file", location };
      }
      return valueAt(read.value, path) === undefined ? { kind: "default" } : { kind: "format", name: format };
    },
  };
}

/** Errors and warnings about the meaning of a loaded configuration, after those of its reader. */
export function checkLoaded(loaded: LoadedConfig): ConfigProblem[] {
  const found = checkConfig(loaded.config).map((finding) => {
    const from = loaded.provenance(finding.path);
    const file = from.kind === "env" || from.kind === "flag" ? from.name : loaded.source;
    return problemOf(finding, file, loaded.locate(finding.path));
  });
  return [...loaded.warnings, ...found];
}

/** Loads and checks; what is left are warnings. Throws `ConfigError` with all errors (and warnings) otherwise. */
export function loadCheckedConfig(options: LoadConfigOptions): LoadedConfig {
  const loaded = loadConfig(options);
  const problems = checkLoaded(loaded);
  if (problems.some((problem) => problem.severity === "error")) throw new ConfigError(problems);
  return { ...loaded, warnings: problems };
}

/** The override that made what the file does not have: setting a part of something makes the whole. */
function makerOf(
  applied: readonly AppliedOverride[],
  fileValue: unknown,
  path: ConfigPath,
): AppliedOverride | undefined {
  const missing = path.findIndex((_, at) => valueAt(fileValue, path.slice(0, at + 1)) === undefined);
  if (missing < 0) return undefined;
  return applied.findLast((override) => isWithin(override.path, path.slice(0, missing + 1)));
}

/** Fills in the keys that environment variables hold. */
function lookUpKeys(
  config: Config,
  env: Readonly<Record<string, string | undefined>>,
): { config: Config; applied: AppliedOverride[]; findings: ConfigFinding[] } {
  const applied: AppliedOverride[] = [];
  const findings: ConfigFinding[] = [];
  const found = <T extends { api_key?: string | undefined; api_key_env?: string | undefined }>(
    path: ConfigPath,
    holder: T,
    unset?: (variable: string) => string,
  ): T => {
    const variable = holder.api_key_env;
    if (variable === undefined) return holder;
    const at = { path: [...path, "api_key_env"], atKey: false, value: variable };
    if (holder.api_key !== undefined) {
      const message = `${formatPath(at.path)} is not in effect beside api_key: leave one of them out`;
      findings.push({ severity: "warning", message, ...at });
      return holder;
    }
    const key = env[variable];
    if (key !== undefined && key !== "") {
      applied.push({ path: [...path, "api_key"], kind: "env", name: variable });
      return { ...holder, api_key: key };
    }
    const message = unset?.(variable);
    if (message !== undefined) findings.push({ severity: "warning", message, ...at });
    return holder;
  };
  const models = Object.entries(config.models).map(([name, model]) => {
    const unset = (variable: string) =>
      `models.${name}.api_key_env names ${variable}, which is not set: no key will be sent`;
    return [name, found(["models", name], model, unset)] as const;
  });
  const { server } = config;
  const limits = server.limits && {
    ...server.limits,
    keys: Object.fromEntries(
      Object.entries(server.limits.keys).map(([name, key]) =>
        [name, found(["server", "limits", "keys", name], key)] as const
      ),
    ),
  };
  const secret = limits?.store?.password_env;
  if (secret !== undefined && (env[secret] ?? "") === "") {
    findings.push({
      severity: "warning",
      message: `server.limits.store.password_env names ${secret}, which is not set: no password will be sent`,
      path: ["server", "limits", "store", "password_env"],
      atKey: false,
      value: secret,
    });
  }
  const keyed = limits === undefined ? server : { ...server, limits };
  return { config: { ...config, server: keyed, models: Object.fromEntries(models) }, applied, findings };
}
