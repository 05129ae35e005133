import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest.ts";
import { checkConfig } from "../check/check_config.ts";
import { type ConfigFormat, type Converted, detectFormat } from "../formats/format.ts";
import { convertMoaVllm, DEFAULT_BASE_PORT } from "../formats/moa_vllm.ts";
import { readModelPorts } from "../formats/model2port.ts";
import { type AppliedOverride, applyOverrides, type Override, overrideOf } from "./overrides.ts";
import { ConfigError, type ConfigProblem, type Location } from "./problems.ts";
import { presetNames, presetText } from "../presets/presets.ts";
import { type Config, configSchema } from "../schema/config.ts";
import { type ConfigPath, formatPath, isWithin, valueAt } from "../schema/config_path.ts";
import { type ConfigFinding, explain } from "../schema/explain.ts";
import { findNode, lineFinder, MAX_SOURCE_LENGTH, type SourceNode, toJson } from "../source/source.ts";
import { parseJsonc } from "../source/source_jsonc.ts";
import { parseYaml } from "../source/source_yaml.ts";

export type { Override };

/** Where to read a configuration, and what to put over it. */
export interface LoadConfigOptions {
  /** A file, or the name of a preset when there is no such file. */
  readonly path?: string | undefined;
  /** The configuration itself; `path` then only names it and tells the syntax. */
  readonly text?: string | undefined;
  /** By default it follows from the extension of `path`, else from the text. */
  readonly syntax?: "jsonc" | "yaml" | undefined;
  /** Environment variables; those that start with `CANOPY_`, and the ones that `api_key_env` names, are used. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** In the order of the command line; the last one wins. */
  readonly overrides?: readonly Override[] | undefined;
  /** Port of the first model of a MoA-vllm config; by default `model2port.json` decides, else 8010. */
  readonly basePort?: number | undefined;
}

/** Where a value of the configuration came from. */
export type Provenance =
  | { readonly kind: "file"; readonly location: Location }
  | { readonly kind: "env"; readonly name: string }
  | { readonly kind: "flag"; readonly name: string }
  /** What the reader of another format adds, such as MoA-vllm's repetition penalty. */
  | { readonly kind: "format"; readonly name: ConfigFormat }
  | { readonly kind: "default" };

/** A configuration that has the right shape; whether it makes sense is `checkLoaded`'s question. */
export interface LoadedConfig {
  /** All defaults filled in, `api_key_env` looked up. */
  readonly config: Config;
  /** The file or preset, as the user would know it. */
  readonly source: string;
  readonly format: ConfigFormat;
  /** What the reader of another format has to say. */
  readonly warnings: readonly ConfigProblem[];
  /** Where the file has a value, or the nearest thing around it; undefined for what a flag or variable has set. */
  locate(path: ConfigPath): Location | undefined;
  provenance(path: ConfigPath): Provenance;
}

/** Reads a configuration in any of the formats and checks its shape. Throws `ConfigError` with all problems. */
export function loadConfig(options: LoadConfigOptions): LoadedConfig {
  const { text, source, syntax } = readSource(options);
  const root = parseSource(text, source, syntax);
  const place = placer(root, text, source);
  const format = detectFormat(root);
  const converted = convert(root, format, options);
  const warnings = converted.findings.map((finding) => problemOf(finding, source, place(finding)));
  if (warnings.some((problem) => problem.severity === "error")) throw new ConfigError(warnings);

  const overridden = applyOverrides(converted.value, options.env, options.overrides ?? []);
  const { applied } = overridden;
  const placed = (finding: ConfigFinding): ConfigProblem => {
    const by = overrideOf(applied, finding.path) ?? makerOf(applied, converted.value, finding.path);
    if (by !== undefined) return problemOf(finding, by.name, undefined);
    return problemOf(finding, source, place({ ...finding, path: converted.sourceOf(finding.path) ?? [] }));
  };
  const problems = [
    ...overridden.problems.map((finding) => problemOf(finding, finding.origin, undefined)),
    ...explain(configSchema, overridden.value).map(placed),
  ];
  if (problems.length > 0) throw new ConfigError(problems);

  const { config, applied: keys, findings } = lookUpKeys(configSchema.parse(overridden.value), options.env);
  const all: readonly AppliedOverride[] = [...applied, ...keys];
  const locate = (path: ConfigPath, atKey = false): Location | undefined => {
    if (overrideOf(all, path) !== undefined) return undefined;
    const from = converted.sourceOf(path);
    return from === undefined ? undefined : place({ path: from, atKey });
  };
  return {
    config,
    source,
    format,
    warnings: [...warnings, ...findings.map(placed)],
    locate,
    provenance: (path) => {
      const by = overrideOf(all, path);
      if (by !== undefined) return { kind: by.kind, name: by.name };
      const from = converted.sourceOf(path);
      const exact = from !== undefined && findNode(root, from) !== undefined;
      const location = exact ? place({ path: from, atKey: false }) : undefined;
      if (location !== undefined) return { kind: "file", location };
      return valueAt(converted.value, path) === undefined
        ? { kind: "default" }
        : { kind: "format", name: format };
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

function readSource(
  options: LoadConfigOptions,
): { text: string; source: string; syntax: "jsonc" | "yaml" | undefined } {
  const { path, text } = options;
  const extension = extname(path ?? "").toLowerCase();
  const byExtension = extension === ".yaml" || extension === ".yml"
    ? "yaml"
    : extension === ".json" || extension === ".jsonc"
    ? "jsonc"
    : undefined;
  const syntax = options.syntax ?? byExtension;
  if (text !== undefined) return { text: tidy(text), source: path ?? "the configuration", syntax };
  if (path === undefined) fail("the configuration", "no configuration was given: name a file or a preset");
  if (existsSync(path)) return { text: readText(path), source: path, syntax };
  const preset = presetText(path);
  if (preset === undefined) {
    fail(
      path,
      `there is no such file, and no preset has this name${didYouMean(path, presetNames)} (presets: ${
        presetNames.join(", ")
      })`,
    );
  }
  return { text: tidy(preset), source: `preset ${path}`, syntax: "jsonc" };
}

function readText(path: string): string {
  try {
    return tidy(readFileSync(path, "utf8"));
  } catch (error) {
    fail(path, `this file cannot be read: ${messageOf(error)}`);
  }
}

/** Windows editors put a byte order mark first. */
function tidy(text: string): string {
  return text.startsWith("\ufeff") ? text.slice(1) : text;
}

function parseSource(text: string, source: string, syntax: "jsonc" | "yaml" | undefined): SourceNode {
  if (text.length > MAX_SOURCE_LENGTH) {
    fail(source, `this file has ${text.length} characters: at most ${MAX_SOURCE_LENGTH} are read`);
  }
  const isJson = syntax === "jsonc" || (syntax === undefined && /^\s*(\{|\/\/|\/\*)/.test(text));
  const { root, problems } = isJson ? parseJsonc(text) : parseYaml(text);
  if (root !== undefined) return root;
  const lineOf = lineFinder(text);
  throw new ConfigError(problems.map(({ offset, message }) => ({
    severity: "error",
    file: source,
    ...lineOf(offset),
    path: "",
    value: undefined,
    message,
  })));
}

/** Finds the line of a path, or of the nearest thing around it that the file has. */
function placer(root: SourceNode, text: string, file: string) {
  const lineOf = lineFinder(text);
  return (what: { readonly path: ConfigPath; readonly atKey: boolean }): Location => {
    for (let length = what.path.length; length > 0; length--) {
      const found = findNode(root, what.path.slice(0, length));
      if (found === undefined) continue;
      const useKey = what.atKey && length === what.path.length;
      return { file, ...lineOf(useKey ? found.keyOffset : found.node.offset) };
    }
    return { file, ...lineOf(root.offset) };
  };
}

function convert(
  root: SourceNode,
  format: ConfigFormat,
  options: LoadConfigOptions,
): Converted {
  if (format === "canopy") return { value: toJson(root), sourceOf: (path) => path, findings: [] };
  let ports: ReadonlyMap<string, number> | undefined;
  const beside = options.path === undefined ? undefined : join(dirname(options.path), "model2port.json");
  if (options.basePort === undefined && beside !== undefined && existsSync(beside)) {
    const read = readModelPorts(readText(beside));
    if (read.ports === undefined) {
      throw new ConfigError(read.findings.map((finding) => problemOf(finding, beside, undefined)));
    }
    ports = read.ports;
  }
  const basePort = options.basePort ?? DEFAULT_BASE_PORT;
  return convertMoaVllm(root, { levels: format === "tree" ? "cluster" : "layer", ports, basePort });
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
  const models = Object.entries(config.models).map(([name, model]) => {
    const variable = model.api_key_env;
    if (variable === undefined || model.api_key !== undefined) return [name, model] as const;
    const key = env[variable];
    if (key === undefined || key === "") {
      const message = `models.${name}.api_key_env names ${variable}, which is not set: no key will be sent`;
      const path = ["models", name, "api_key_env"];
      findings.push({ severity: "warning", path, atKey: false, value: variable, message });
      return [name, model] as const;
    }
    applied.push({ path: ["models", name, "api_key"], kind: "env", name: variable });
    return [name, { ...model, api_key: key }] as const;
  });
  return { config: { ...config, models: Object.fromEntries(models) }, applied, findings };
}

function problemOf(finding: ConfigFinding, file: string, location: Location | undefined): ConfigProblem {
  return {
    severity: finding.severity,
    file: location?.file ?? file,
    line: location?.line,
    column: location?.column,
    path: formatPath(finding.path),
    value: finding.value,
    message: finding.message,
  };
}

function fail(file: string, message: string): never {
  throw new ConfigError([{
    severity: "error",
    file,
    line: undefined,
    column: undefined,
    path: "",
    value: undefined,
    message,
  }]);
}
