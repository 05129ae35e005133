import { existsSync } from "node:fs";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { CanopyError } from "../../../base/errors.ts";
import { readConfig } from "../../../cfgs/load/read_config.ts";
import { presetNames } from "../../../cfgs/presets/presets.ts";
import { formatPath } from "../../../cfgs/schema/config_path.ts";
import type { EmittedFile } from "../../../launcher/emit/emitted.ts";
import { UsageError } from "../../kit/args.ts";
import type { Io } from "../../kit/io.ts";
import { version } from "../../kit/version.ts";
import {
  costFile,
  type ExperimentMembers,
  isOwnSet,
  memberName,
  memberOptions,
  OUTPUT_OPTIONS,
  secretPaths,
  withPaths,
} from "../eval/experiment_file.ts";
import { BENCH_FOLDER } from "./indexed_job.ts";

/** Members with paths as they are seen from a folder of the same machine, or of one with the same folders. */
export function membersFrom(
  members: ExperimentMembers,
  folder: string,
  { cwd }: Pick<Io, "cwd">,
): ExperimentMembers {
  return withPaths(members, (path) => pathFrom(path, folder, cwd), (config) => isFileAt(config, cwd));
}

/** A path, seen from the working folder, as it is seen from another one; a whole path stays. */
export function pathFrom(path: string, folder: string, cwd: string): string {
  if (isAbsolute(path)) return path;
  const base = resolve(cwd, folder);
  return relative(base, join(cwd, path)).replaceAll(sep, "/");
}

/** An experiment for pods. */
export interface PodExperiment {
  readonly members: ExperimentMembers;
  /** Its configurations, as paths that are seen from it. */
  readonly configs: readonly EmittedFile[];
}

/**
 * An experiment for pods, which see nothing of this machine: configurations come with it under the names that modes are
 * called by, what is written goes to the volume. Throws `UsageError` for questions, costs and prices in files here, and 400 `secret` for a
 * configuration with a key.
 */
export function experimentForPods(members: ExperimentMembers, { cwd }: Pick<Io, "cwd">): PodExperiment {
  const { sets, config, cost, data, prices } = members;
  const local = [
    ...Array.isArray(cost) ? cost.flatMap((one) => costFile(String(one)) ?? []) : [],
    ...typeof prices === "string" ? [prices] : [],
    ...Array.isArray(sets) ? sets.map(String).filter(isOwnSet) : [],
    ...typeof data === "string" && data !== "sample" && data !== "hub" ? [data] : [],
  ].find((path) => !isAbsolute(path));
  if (local !== undefined) {
    throw new UsageError(
      `${local} is a file here, which pods do not see: put it on their volume and name it ${BENCH_FOLDER}/…, ` +
        "or write files for Slurm only (--target slurm)",
    );
  }
  const written = OUTPUT_OPTIONS.map((name) => {
    const path = members[name];
    return [name, typeof path === "string" ? `${BENCH_FOLDER}/${path.replace(/^.*[/\\]/, "")}` : undefined];
  });
  const configs: EmittedFile[] = [];
  const inside = (one: unknown, at: number): unknown => {
    if (typeof one !== "string" || (presetNames.includes(one) && !isFileAt(one, cwd))) return one;
    // Two files may have the same name.
    const path = `${at + 1}/${one.replace(/^.*[/\\]/, "")}`;
    configs.push({ path, text: configText(one) });
    return path;
  };
  const moved = Array.isArray(config) ? config.map(inside) : config;
  return { members: { ...members, ...Object.fromEntries(written), config: moved }, configs };
}

/** A configuration in Canopy's format, without comments, which may say anything. JSON is YAML, too. */
function configText(config: string): string {
  const { value } = readConfig({ path: config });
  const [secret] = secretPaths({ config: [value] });
  if (secret === undefined) return `${JSON.stringify(value, null, 2)}\n`;
  throw new CanopyError(
    `Cannot write ${config} into a ConfigMap: ${
      formatPath(secret.slice(2))
    } is a secret; name its variable as ` +
      "api_key_env, and put the variable into the secret canopy-bench",
    { code: "secret", status: 400 },
  );
}

function isFileAt(path: string, cwd: string): boolean {
  return existsSync(resolve(cwd, path));
}

/** Members as the text of an experiment file. Throws `UsageError` for a key or password in it. */
export function experimentText(members: ExperimentMembers): string {
  const written = ["sets", ...memberOptions().map(([name]) => name)].flatMap((name) => {
    const value = members[name];
    const isNothing = value === undefined || value === false || (Array.isArray(value) && value.length === 0);
    return isNothing ? [] : [[memberName(name), value] as const];
  });
  const file = Object.fromEntries(written);
  const [secret] = secretPaths(file);
  if (secret !== undefined) {
    throw new UsageError(`${formatPath(secret)} has a password, which must not stand in files: leave it out`);
  }
  return `// Written by canopy bench emit ${version}: canopy bench eval --experiment FILE asks all of it.\n` +
    `${JSON.stringify(file, null, 2)}\n`;
}
