import { existsSync, readFileSync } from "node:fs";
import { basename, extname, resolve } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest.ts";
import {
  isWorkloadName,
  shippedWorkload,
  WORKLOAD_NAMES,
  type WorkloadName,
  workloadSummary,
  workloadText,
} from "../../bench/experiments/workloads/shipped_workloads.ts";
import {
  type BenchWorkload,
  readWorkload,
  workloadJsonSchema,
} from "../../bench/experiments/workloads/workload_file.ts";
import { ConfigError } from "../../cfgs/load/problems.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { colorsOf, table, tableColumns } from "../kit/terminal.ts";

/** Workloads of the experiments where nothing else is said: answers of the others take minutes to play. */
const DEFAULT_WORKLOADS = ["chat", "maths", "documents"] as const satisfies readonly WorkloadName[];

export const workloadOption = {
  workload: {
    type: "list",
    value: "NAME|FILE",
    help: `Lengths of questions and answers: ${WORKLOAD_NAMES.join(", ")}, or a file (see bench workloads)`,
  },
} as const;

export const WORKLOAD_HELP = `Workloads (sources and assumptions: canopy bench workloads NAME):
${WORKLOAD_NAMES.map((name) => `  ${name.padEnd(10)}  ${workloadSummary(name)}`).join("\n")}`;

/**
 * The workloads of a command line: shipped ones by name, others by file. Throws `UsageError` where there is neither, and
 * `ConfigError` naming a file's line.
 */
export function workloadsOf(
  given: readonly string[],
  io: Pick<Io, "cwd">,
  byDefault: readonly WorkloadName[] = DEFAULT_WORKLOADS,
): readonly BenchWorkload[] {
  if (given.length === 0) return byDefault.map(shippedWorkload);
  return [...new Set(given)].map((one) => oneWorkload(one, io));
}

function oneWorkload(given: string, { cwd }: Pick<Io, "cwd">): BenchWorkload {
  const file = resolve(cwd, given);
  if (isWorkloadName(given)) return shippedWorkload(given);
  if (!existsSync(file)) {
    throw new UsageError(
      `Option --workload ${given}: there is no such file, and no workload has this name${
        didYouMean(given, WORKLOAD_NAMES)
      } (workloads: ${WORKLOAD_NAMES.join(", ")})`,
    );
  }
  return readWorkload(textOf(file, given), { name: basename(given, extname(given)), path: given });
}

function textOf(file: string, path: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw ConfigError.of(path, `this file cannot be read: ${messageOf(cause)}`);
  }
}

/** `canopy bench workloads`: what the simulated experiments assume of questions and answers. */
export const benchWorkloadsCommand = defineCommand({
  name: "bench workloads",
  summary: "List the workloads of the simulated experiments, check files of yours, print one to begin with",
  arguments: "[NAME|FILE…]",
  maxArguments: 100,
  options: {
    print: { type: "flag", help: "Print the file of a shipped workload, to begin one of yours with" },
    schema: { type: "flag", help: "Print the JSON Schema of workload files, for editors" },
  },
  details:
    `A workload file is JSONC: lengths of questions, and of answers by model size and layer (log-normal, or
quantiles) with their limits, how alike the lengths of one question's answers are, and when questions come; each with
its source. Files are taken wherever --workload is.

${WORKLOAD_HELP}

Examples:
  canopy bench workloads reasoning
  canopy bench workloads --print paper > mine.jsonc
  canopy bench workloads mine.jsonc
  canopy bench run --workload mine.jsonc --questions 2`,
  run: (values, names, io) => {
    if (values.schema) io.out.write(`${JSON.stringify(workloadJsonSchema(), null, 2)}\n`);
    else if (values.print) {
      const [name, more] = names;
      if (name === undefined || more !== undefined || !isWorkloadName(name)) {
        throw new UsageError(`Option --print needs one name: ${WORKLOAD_NAMES.join(", ")}`);
      }
      io.out.write(workloadText(name));
    } else {
      const workloads = workloadsOf(names, io, WORKLOAD_NAMES);
      io.out.write(workloads.map((workload) => shownWorkload(workload, io)).join("\n"));
    }
    return Promise.resolve(0);
  },
});

function shownWorkload(workload: BenchWorkload, io: Io): string {
  const { name, summary, source, samples, question, answers, correlation, arrivals } = workload;
  const of = ({ models, layers }: BenchWorkload["answers"][number]) => {
    if (models === undefined && layers === undefined) {
      return answers.length === 1 ? "answers" : "other answers";
    }
    const parts = [models?.join(", "), layers === undefined ? undefined : `layer ${layers.join(", ")}`];
    return `answers of ${parts.filter((part) => part !== undefined).join(", ")}`;
  };
  const lengths = (one: BenchWorkload["question"]) => {
    const spread = one.quantiles?.map(([share, tokens]) => `${100 * share} %: ${tokens}`).join(", ") ??
      `median ${one.median}, sigma ${one.sigma?.toFixed(2)}`;
    return `${spread}, at most ${one.max_tokens} tokens`;
  };
  const rate = arrivals.per_second === undefined ? "" : `, ${arrivals.per_second} a second`;
  const rows = [
    ["questions", lengths(question), question.source],
    ...answers.map((answer) => [of(answer), lengths(answer), answer.source]),
    ["correlation", `${correlation.agents.toFixed(2)} between the agents of a question`, correlation.source],
    ["arrivals", `${arrivals.process.replaceAll("_", " ")}${rate}`, arrivals.source],
    ["all of it", samples === undefined ? "" : `${samples} questions`, source],
  ];
  const colors = colorsOf(io.out, io.env);
  const lines = table(["part", "figures", "source"], rows, [], tableColumns(io.out));
  return [colors.bold(`${name}: ${summary}`), ...lines, ""].join("\n");
}
