import type { ReportedExperiment } from "../../../bench/report/eval/eval_report.ts";
import { UsageError } from "../../kit/args.ts";
import type { OptionValues } from "../../kit/command.ts";
import type { Io } from "../../kit/io.ts";
import { DRIVER_VARIABLES, withDriverVariables } from "./driver_variables.ts";
import type { EVAL_OPTIONS, EvalFlags, EvalValues } from "./eval_options.ts";
import {
  configChoices,
  type Experiment,
  type ExperimentMembers,
  memberName,
  memberOptions,
  OUTPUT_OPTIONS,
  readExperiment,
} from "./experiment_file.ts";
import { readShard, type Shard, shardFile } from "./shard.ts";

/** Options of an evaluation, of an experiment file and of the command line. */
export interface EvalRequest {
  /** Data sets, or files of a user's own. */
  readonly sets: readonly string[];
  readonly values: EvalValues;
  /** The same as values of options; lists that are empty, and flags that are not set, are left out. */
  readonly members: ExperimentMembers;
  readonly experiment: (Experiment & ReportedExperiment) | undefined;
}

/** Options that say the same in other words: one that is given on the command line puts the file's others away. */
const REPLACES: Readonly<Record<string, readonly string[]>> = {
  url: ["config", "simulate", "speedup", "cost"],
  config: ["url"],
  protocol: ["task"],
};

/** The options in effect: those of the command line before those of its experiment file. Throws as `readExperiment`. */
export function evalRequest(
  flags: EvalFlags,
  sets: readonly string[],
  io: Pick<Io, "cwd" | "env" | "err">,
): EvalRequest {
  if (flags.experiment === undefined) {
    const values = withDriverVariables<EvalValues>(flags, io);
    return { sets, values, members: givenMembers(values, sets), experiment: undefined };
  }
  const experiment = readExperiment(flags.experiment, io);
  const unread = DRIVER_VARIABLES.filter((name) => (io.env[name] ?? "") !== "");
  if (unread.length > 0) {
    io.err.write(`Not read from the environment, since an experiment file says all: ${unread.join(", ")}\n`);
  }
  const given = givenMembers(flags, sets);
  const { members: inFile } = experiment;
  const dropped = Object.keys(given).flatMap((name) => REPLACES[name] ?? []).filter((name) =>
    inFile[name] !== undefined && given[name] === undefined
  );
  const kept = Object.fromEntries(Object.entries(inFile).filter(([name]) => !dropped.includes(name)));
  const members = { ...kept, ...given };
  const overrides = [
    ...Object.keys(given).filter((name) => !OUTPUT_OPTIONS.some((output) => output === name)).map((name) => {
      const before = inFile[name];
      return `${optionText(name, given[name])} (${
        before === undefined ? "not in the file" : `the file: ${JSON.stringify(before)}`
      })`;
    }),
    ...dropped.map((name) => `without ${memberName(name)} (the file: ${JSON.stringify(inFile[name])})`),
  ];
  return {
    sets: textsOf(members["sets"]),
    values: valuesOf(members),
    members,
    experiment: { ...experiment, overrides },
  };
}

/** What was given of all that can be. */
function givenMembers(values: EvalValues, sets: readonly string[]): ExperimentMembers {
  const all: ExperimentMembers = { ...values };
  const isGiven = (value: unknown) =>
    value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0);
  return Object.fromEntries(
    [["sets", sets] as const, ...memberOptions().map(([name]) => [name, all[name]] as const)]
      .filter(([, value]) => isGiven(value)),
  );
}

function valuesOf(members: ExperimentMembers): EvalValues {
  const values: Record<string, unknown> = { experiment: undefined };
  for (const [name, { type }] of memberOptions()) {
    values[name] = members[name] ?? (type === "flag" ? false : type === "list" ? [] : undefined);
  }
  // Each value has its option's type: the command line's by its definition, the file's by its schema.
  const typed = values as OptionValues<typeof EVAL_OPTIONS>;
  return { ...typed, config: configChoices(members["config"]) };
}

/** As on a command line, for people. */
function optionText(name: string, value: unknown): string {
  if (name === "sets") return textsOf(value).join(" ");
  if (value === true) return `--${name}`;
  return (Array.isArray(value) ? value : [value]).map((one: unknown) => `--${name} ${String(one)}`).join(" ");
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

/** The request of one part of several; `values` then name that part's files. */
export interface ShardRequest {
  readonly values: EvalValues;
  readonly shard: Shard | undefined;
}

/**
 * The part that `--shard` asks for. A part's records stand beside those of the whole where all parts are told the same
 * name: by a file, or with `auto`. Reports that a file names are those of the whole, and no part writes them. Throws
 * `UsageError` for a part that is none.
 */
export function shardRequest(
  { values, members, experiment }: EvalRequest,
  flags: EvalFlags,
  io: Pick<Io, "env" | "err">,
): ShardRequest {
  if (values.shard === undefined) return { values, shard: undefined };
  const shard = readShard(values.shard, io.env);
  if (values.shard === "auto" && values.records === undefined) {
    throw new UsageError("Option --shard auto needs --records FILE: parts are put together by their records");
  }
  if (values.shard === "auto") io.err.write(`Part ${shard.part} of ${shard.parts}\n`);
  const isShared = values.shard === "auto" || (flags.shard !== undefined && flags.records === undefined);
  const { records } = values;
  const own = records === undefined || !isShared ? records : shardFile(records, shard);
  if (own !== records) io.err.write(`Records of this part: ${own}\n`);
  if (experiment === undefined || flags.shard === undefined) {
    return { values: { ...values, records: own }, shard };
  }
  const reports = OUTPUT_OPTIONS.filter((name) =>
    name !== "records" && members[name] !== undefined && flags[name] === undefined
  );
  if (reports.length > 0) {
    io.err.write(
      `Not written, since this is a part: ${reports.map(memberName).join(", ")} of ${experiment.name}\n`,
    );
  }
  const without = Object.fromEntries(reports.map((name) => [name, undefined]));
  return { values: { ...values, ...without, records: own }, shard };
}
