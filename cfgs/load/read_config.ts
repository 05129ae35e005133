import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest.ts";
import { withoutMark } from "./without_mark.ts";
import { type ConfigFormat, type Converted, detectFormat } from "../formats/format.ts";
import { convertMoaVllm, DEFAULT_BASE_PORT } from "../formats/moa_vllm.ts";
import { readModelPorts } from "../formats/model2port.ts";
import { ConfigError, type ConfigProblem, type Location, problemOf } from "./problems.ts";
import { presetNames, presetText } from "../presets/presets.ts";
import { type ConfigPath, valueAt } from "../schema/config_path.ts";
import { findNode, lineFinder, MAX_SOURCE_LENGTH, type SourceNode, toJson } from "../source/source.ts";
import { parseJsonc } from "../source/source_jsonc.ts";
import { parseYaml } from "../source/source_yaml.ts";

/** Source of a configuration. */
export interface ConfigSource {
  /** A file, or the name of a preset when there is no such file. */
  readonly path?: string | undefined;
  /** The configuration itself; `path` then only names it and tells the syntax. */
  readonly text?: string | undefined;
  /** The configuration as an object, such as one made from options; `path` then only names it. */
  readonly value?: unknown;
  /** By default it follows from the extension of `path`, else from the text. */
  readonly syntax?: "jsonc" | "yaml" | undefined;
  /** Port of the first model of a MoA-vllm config; by default `model2port.json` decides, else 8010. */
  readonly basePort?: number | undefined;
}

/** A configuration in Canopy's format, unchecked, that knows where its parts come from. */
export interface ReadConfig {
  /** The file or preset, as the user would know it. */
  readonly source: string;
  readonly format: ConfigFormat;
  readonly value: unknown;
  /** Warnings of the reader of another format. */
  readonly warnings: readonly ConfigProblem[];
  /** Place of a value, or of the nearest thing around it; undefined where there is no text, or the format adds it. */
  locate(path: ConfigPath, atKey?: boolean): Location | undefined;
  /** True when the source itself has a value at this path. */
  has(path: ConfigPath): boolean;
}

/** Reads a configuration in any of the formats. Throws `ConfigError` when it is not well-formed. */
export function readConfig(options: ConfigSource): ReadConfig {
  const { value } = options;
  if (value !== undefined) {
    return {
      source: options.path ?? "the configuration",
      format: "canopy",
      value,
      warnings: [],
      locate: () => undefined,
      has: (path) => valueAt(value, path) !== undefined,
    };
  }
  const { text, source, syntax } = readSource(options);
  const root = parseSource(text, source, syntax);
  const placeOf = placer(root, text, source);
  const format = detectFormat(root);
  const converted = convert(root, format, options);
  const warnings = converted.findings.map((finding) =>
    problemOf(finding, source, placeOf(finding.path, finding.atKey))
  );
  if (warnings.some((problem) => problem.severity === "error")) throw new ConfigError(warnings);
  return {
    source,
    format,
    value: converted.value,
    warnings,
    locate: (path, atKey = false) => {
      const from = path.length === 0 ? path : converted.sourceOf(path);
      return from === undefined ? undefined : placeOf(from, atKey);
    },
    has: (path) => {
      const from = converted.sourceOf(path);
      return from !== undefined && findNode(root, from) !== undefined;
    },
  };
}

function readSource(
  { path, text, syntax: given }: ConfigSource,
): { text: string; source: string; syntax: "jsonc" | "yaml" | undefined } {
  const extension = extname(path ?? "").toLowerCase();
  const byExtension = extension === ".yaml" || extension === ".yml"
    ? "yaml"
    : extension === ".json" || extension === ".jsonc"
    ? "jsonc"
    : undefined;
  const syntax = given ?? byExtension;
  if (text !== undefined) return { text: withoutMark(text), source: path ?? "the configuration", syntax };
  if (path === undefined) {
    throw ConfigError.of("the configuration", "no configuration was given: name a file or a preset");
  }
  if (existsSync(path)) return { text: readText(path), source: path, syntax };
  const preset = presetText(path);
  if (preset === undefined) {
    const names = presetNames.join(", ");
    const hint = didYouMean(path, presetNames);
    throw ConfigError.of(
      path,
      `there is no such file, and no preset has this name${hint} (presets: ${names})`,
    );
  }
  return { text: withoutMark(preset), source: `preset ${path}`, syntax: "jsonc" };
}

function readText(path: string): string {
  try {
    return withoutMark(readFileSync(path, "utf8"));
  } catch (error) {
    throw ConfigError.of(path, `this file cannot be read: ${messageOf(error)}`);
  }
}

function parseSource(text: string, source: string, syntax: "jsonc" | "yaml" | undefined): SourceNode {
  if (text.length > MAX_SOURCE_LENGTH) {
    const message = `this file has ${text.length} characters: at most ${MAX_SOURCE_LENGTH} are read`;
    throw ConfigError.of(source, message);
  }
  const isJson = syntax === "jsonc" || (syntax === undefined && /^\s*(\{|\/\/|\/\*)/.test(text));
  const { root, problems } = isJson ? parseJsonc(text) : parseYaml(text);
  if (root !== undefined) return root;
  const lineOf = lineFinder(text);
  throw new ConfigError(problems.map(({ offset, message }) => {
    const finding = { severity: "error", path: [], value: undefined, message } as const;
    return problemOf(finding, source, lineOf(offset));
  }));
}

/** Finds the line of a path of the source, or of the nearest thing around it that the source has. */
function placer(root: SourceNode, text: string, file: string) {
  const lineOf = lineFinder(text);
  return (path: ConfigPath, atKey: boolean): Location => {
    for (let length = path.length; length > 0; length--) {
      const found = findNode(root, path.slice(0, length));
      if (found === undefined) continue;
      const useKey = atKey && length === path.length;
      return { file, ...lineOf(useKey ? found.keyOffset : found.node.offset) };
    }
    return { file, ...lineOf(root.offset) };
  };
}

function convert(root: SourceNode, format: ConfigFormat, options: ConfigSource): Converted {
  if (format === "canopy") return { value: toJson(root), sourceOf: (path) => path, findings: [] };
  let ports: ReadonlyMap<string, number> | undefined;
  const beside = options.path === undefined ? undefined : join(dirname(options.path), "model2port.json");
  if (options.basePort === undefined && beside !== undefined && existsSync(beside)) {
    const read = readModelPorts(readText(beside));
    if (read.ports === undefined) {
      throw new ConfigError(read.findings.map((finding) => problemOf(finding, beside)));
    }
    ports = read.ports;
  }
  const basePort = options.basePort ?? DEFAULT_BASE_PORT;
  return convertMoaVllm(root, { levels: format === "tree" ? "cluster" : "layer", ports, basePort });
}
