import { existsSync, readFileSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { z } from "zod";
import { messageOf } from "../../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { didYouMean } from "../../../base/nearest.ts";
import { SIZES } from "../../../bench/experiments/world.ts";
import { ConfigError, problemOf } from "../../../cfgs/load/problems.ts";
import { readConfig } from "../../../cfgs/load/read_config.ts";
import { presetNames } from "../../../cfgs/presets/presets.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import type { ConfigPath } from "../../../cfgs/schema/config_path.ts";
import { type ConfigFinding, explain, findingAt } from "../../../cfgs/schema/explain.ts";
import { isSecretPath, shownSecret } from "../../../cfgs/schema/secrets.ts";
import { UsageError } from "../../kit/args.ts";
import type { Option } from "../../kit/command.ts";
import type { Io } from "../../kit/io.ts";
import { EVAL_OPTIONS } from "./eval_options.ts";
import type { ConfigChoice } from "./eval_targets.ts";
import allSets from "./experiments/all-sets.jsonc" with { type: "text" };
import diversity from "./experiments/diversity.jsonc" with { type: "text" };

/** Experiments that come with Canopy. */
const SHIPPED: Readonly<Record<string, string>> = { "all-sets": allSets, diversity };

/** Values of options by their names, as a file or a command line gives them; data sets are `sets`. */
export type ExperimentMembers = Readonly<Record<string, unknown>>;

/** An experiment as its file names it. */
export interface Experiment {
  /** As the user knows it. */
  readonly name: string;
  readonly text: string;
  /** True for one that comes with Canopy, under its name. */
  readonly shipped: boolean;
  /** Its paths are seen from the working folder. */
  readonly members: ExperimentMembers;
}

/** Options whose values are paths of what is written. */
export const OUTPUT_OPTIONS = [
  "records",
  "html",
  "pages",
  "json",
  "svg",
  "markdown",
  "lm-eval-output",
] as const;

/**
 * Reads an experiment file, or a shipped experiment. Throws `UsageError` where there is none, and `ConfigError` naming
 * the line and the nearest known member.
 */
export function readExperiment(path: string, { cwd }: Pick<Io, "cwd">): Experiment {
  const file = resolve(cwd, path);
  const shipped = existsSync(file) ? undefined : SHIPPED[path];
  const text = shipped ?? textOf(file, path);
  const { value, format, locate } = readConfig({ text, path, syntax: "jsonc" });
  if (format !== "canopy") {
    throw ConfigError.of(
      path,
      `this is a configuration of MoA-vllm: name it as "config" in an experiment file`,
    );
  }
  const found = [...explain(experimentSchema(), value), ...secretFindings(value)];
  if (found.length > 0) {
    throw new ConfigError(found.map((one) => problemOf(one, path, locate(one.path, one.atKey))));
  }
  const folder = shipped === undefined ? dirname(path) : ".";
  const at = (inside: string) => isAbsolute(inside) ? inside : join(folder, inside);
  const members = withPaths(
    membersOf(value),
    at,
    (config) => existsSync(resolve(cwd, at(config))),
  );
  return { name: path, text, shipped: shipped !== undefined, members };
}

function textOf(file: string, path: string): string {
  if (!existsSync(file)) {
    const names = Object.keys(SHIPPED);
    throw new UsageError(
      `Option --experiment ${path}: there is no such file, and no experiment has this name${
        didYouMean(path, names)
      } (experiments: ${names.join(", ")})`,
    );
  }
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw ConfigError.of(path, `this file cannot be read: ${messageOf(cause)}`);
  }
}

/** The JSON Schema (draft 2020-12) of an experiment file, for editors. */
export function experimentJsonSchema(): JsonObject {
  const { $schema, ...schema } = z.toJSONSchema(experimentSchema(), { io: "input", reused: "ref" });
  const json: JsonObject = JSON.parse(JSON.stringify({ $schema, title: "Canopy experiment", ...schema }));
  return json;
}

/** An option's name in a file: `max_tokens`. */
export function memberName(option: string): string {
  return option.replaceAll("-", "_");
}

/** Options that a file may set. */
export function memberOptions(): [name: string, option: Option][] {
  return Object.entries<Option>(EVAL_OPTIONS).filter(([name]) => name !== "experiment");
}

function experimentSchema() {
  const members = memberOptions().map(([name, option]) =>
    [memberName(name), memberSchema(name, option).describe(option.help).optional()] as const
  );
  const set = z.string().min(1);
  return z.strictObject({
    $schema: z.string().optional().describe("For editors"),
    sets: z.union([set, z.array(set)]).optional()
      .describe("Data sets, or files of questions of your own; paths are seen from this file"),
    ...Object.fromEntries(members),
  });
}

function memberSchema(name: string, { type, choices, fraction, min, max }: Option): z.ZodType {
  if (type === "flag") return z.boolean();
  if (type === "number") {
    const number = fraction === true ? z.number() : z.int();
    return number.min(min ?? -Infinity).max(max ?? Number.MAX_SAFE_INTEGER);
  }
  const text = choices === undefined ? z.string().min(1) : z.enum(choices);
  if (type === "text") return text;
  // A union in a union would not be explained.
  if (name === "config") return z.union([text, configSchema, z.array(z.union([text, configSchema]))]);
  return z.union([text, z.array(text)]);
}

/** The members that a valid file has, lists as lists. */
function membersOf(value: unknown): ExperimentMembers {
  const file = isJsonObject(value) ? value : {};
  const listed = (one: unknown) => one === undefined || Array.isArray(one) ? one : [one];
  return Object.fromEntries([
    ["sets", listed(file["sets"])],
    ...memberOptions().map(([name, { type }]) => {
      const given = file[memberName(name)];
      return [name, type === "list" ? listed(given) : given] as const;
    }),
  ]);
}

/** Members with other paths: of files that are read and written, not names of data sets and presets. */
export function withPaths(
  members: ExperimentMembers,
  move: (path: string) => string,
  isFile: (config: string) => boolean,
): ExperimentMembers {
  const moved = (value: unknown) => typeof value === "string" ? move(value) : value;
  const { sets, config, data, cost, prices } = members;
  return {
    ...members,
    cost: Array.isArray(cost)
      ? cost.map((one) => typeof one === "string" ? movedCost(one, move) : one)
      : cost,
    prices: moved(prices),
    sets: Array.isArray(sets)
      ? sets.map((set) => typeof set === "string" && isOwnSet(set) ? ownSetAt(move(set)) : set)
      : sets,
    config: Array.isArray(config)
      ? config.map((one: unknown) =>
        typeof one === "string" && presetNames.includes(one) && !isFile(one) ? one : moved(one)
      )
      : config,
    data: data === "sample" || data === "hub" ? data : moved(data),
    ...Object.fromEntries(OUTPUT_OPTIONS.map((name) => [name, moved(members[name])])),
  };
}

/** `MODEL=FILE` with another path; sizes stay. */
function movedCost(cost: string, move: (path: string) => string): string {
  const file = costFile(cost);
  return file === undefined ? cost : cost.slice(0, cost.length - file.length) + move(file);
}

/** The file that an option `--cost` names; undefined for a size. */
export function costFile(cost: string): string | undefined {
  const name = cost.slice(cost.indexOf("=") + 1);
  return SIZES.some((size) => size === name) ? undefined : name;
}

/** True for a file of a user's own: names of data sets have no dots and slashes. */
export function isOwnSet(set: string): boolean {
  return /[./\\]/.test(set);
}

function ownSetAt(path: string): string {
  return isOwnSet(path) ? path : `./${path}`;
}

/** The configurations of members: paths, presets, and those that stand in the file. */
export function configChoices(config: unknown): ConfigChoice[] {
  if (!Array.isArray(config)) return [];
  return config.map((value: unknown, at) =>
    typeof value === "string" ? value : { name: `inline-${at + 1}`, value }
  );
}

/** Keys and passwords, which must not stand in a file that is a part of its report. */
function secretFindings(value: unknown): ConfigFinding[] {
  return [...secretPaths(value)].map((path) =>
    findingAt(
      path,
      `is a secret, and this file is a part of its report: expected "api_key_env", or a configuration in a file of its own`,
    )
  );
}

/** Places of keys and passwords in an experiment, and in the configurations that it holds. */
export function* secretPaths(value: unknown, path: ConfigPath = []): Generator<ConfigPath> {
  if (typeof value === "object" && value !== null) {
    const children: [string | number, unknown][] = Array.isArray(value)
      ? [...value.entries()]
      : Object.entries(value);
    for (const [key, child] of children) yield* secretPaths(child, [...path, key]);
    return;
  }
  // What engines without keys are given is none.
  if (typeof value !== "string" || value === "" || value === "EMPTY") return;
  const inside = path[0] !== "config" ? path : path.slice(typeof path[1] === "number" ? 2 : 1);
  if (isSecretPath(inside) || shownSecret(value, inside) !== value) yield path;
}
