import { compareExits, type ExitOptions } from "../../bench/experiments/exit.ts";
import { measureExitSets } from "../../bench/experiments/exit_sets/exit_sets.ts";
import { sweepTau } from "../../bench/experiments/tau.ts";
import { exitReport } from "../../bench/report/exit_report.ts";
import { exitSetsReport } from "../../bench/report/exit_sets_report.ts";
import type { Report } from "../../bench/report/report.ts";
import { tauReport } from "../../bench/report/tau_report.ts";
import { experiment, originOf, worldOptions, type WorldSettings, worldSettings } from "./experiment.ts";
import { costSettings, SIZE_COST_OPTION } from "./model_costs.ts";
import { WORKLOAD_HELP, workloadOption, workloadsOf } from "./workloads.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand, type OptionValues } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { writeReport } from "../kit/report_output.ts";

/** Number of questions by default: enough for a look of a minute; to see differences of some per cent takes a hundred. */
const DEFAULT_QUESTIONS = { exit: 8, sets: 600, tau: 4 };
/** Questions at the same time, of sets. */
const DEFAULT_LOADS = [1, 32];
const DEFAULT_TAUS = [0.1, 0.3, 0.5, 0.7, 0.9];
const DEFAULT_GAMMAS = [0.3, 0.5, 0.7];
/** Of the workloads the one in which answers are longest, and exits spare most. */
const DEFAULT_WORKLOAD = "maths";

const CONCURRENCY_OPTION = {
  type: "number",
  value: "N",
  min: 1,
  max: 10_000,
  help: "Questions at the same time; by default as the workload says: one",
} as const;

const exitOptions = {
  ...workloadOption,
  concurrency: CONCURRENCY_OPTION,
  sets: {
    type: "number",
    value: "N",
    min: 2,
    max: 100,
    help: `Cost so many sets of questions instead of playing one: rules of whole runs, with intervals; ` +
      `--questions is ${DEFAULT_QUESTIONS.sets} each by default, --concurrency ${
        DEFAULT_LOADS.join(" and ")
      }`,
  },
  play: {
    type: "number",
    value: "N",
    min: 0,
    max: 10_000,
    help: "With --sets: questions of the first set that are played as well, to compare; 0 by default",
  },
  ...worldOptions,
  cost: SIZE_COST_OPTION,
} as const;

/** `canopy bench exit`: mode #4 beside the others. */
export const benchExitCommand = defineCommand({
  name: "bench exit",
  summary: "Early exit by each metric beside modes #1 to #3 and beside chance; simulated",
  maxArguments: 0,
  options: exitOptions,
  details:
    `Questions have scripted answers, so that it is known which exits were wrong. The workload is ${DEFAULT_WORKLOAD} by default.

With --sets the rules that end whole runs answer thousands of questions, followed from event to event on the cost
model with the router's own rules, without the router: a thousandth of the time. Each set has a seed of its own, and
what the posterior knows is learned from questions that are in no set.

${WORKLOAD_HELP}

Examples:
  canopy bench exit --workload reasoning --questions 20 --json exit.json
  canopy bench exit --sets 5 --play 10 --markdown sets.md`,
  run: async (values, _, io) => {
    if (values.sets !== undefined) return await setsOf({ ...values, sets: values.sets }, io);
    if (values.play !== undefined) {
      throw new UsageError("Option --play is for --sets: without it all is played");
    }
    const settings = {
      ...worldSettings(values),
      ...costSettings(values.cost, io),
      workloads: workloadsOf(values.workload, io, [DEFAULT_WORKLOAD]),
      questions: values.questions ?? DEFAULT_QUESTIONS.exit,
      concurrency: values.concurrency,
    };
    return await writeReport(await exitOf(settings, io), values, io);
  },
});

type ExitValues = OptionValues<typeof exitOptions>;

/** Rules of whole runs over several sets of questions. */
async function setsOf(values: ExitValues & { readonly sets: number }, io: Io): Promise<number> {
  const { serving, seed, slots, version } = worldSettings(values);
  const [workload, another] = workloadsOf(values.workload, io, [DEFAULT_WORKLOAD]);
  if (workload === undefined || another !== undefined) {
    throw new UsageError("Option --sets takes one workload: give --workload once");
  }
  if (serving === "vllm") throw new UsageError("Option --sets costs sglang-pd and sglang: --serving is vllm");
  if (slots === "declared") {
    throw new UsageError("Option --sets has answers in order of completion: --slots is declared");
  }
  if (version !== undefined) {
    throw new UsageError("Option --sets costs no version of an engine: leave out --engine-version");
  }
  const { sets, concurrency, questions = DEFAULT_QUESTIONS.sets, play = 0 } = values;
  const settings = { sets, questions, play, serving, seed, ...costSettings(values.cost, io) };
  const loads = concurrency === undefined ? DEFAULT_LOADS : [concurrency];
  const progress = new Progress(io);
  try {
    const result = await measureExitSets({
      ...settings,
      workload,
      loads,
      clock: io.clock,
      signal: io.stop,
      onPart: (part) => progress.show(part),
    });
    const shown = { ...settings, workload: workload.name, loads };
    return await writeReport(
      exitSetsReport(result, originOf({ ...settings, slots, version }), shown),
      values,
      io,
    );
  } finally {
    progress.end();
  }
}

/** The comparison as a report, with progress. */
export function exitOf(
  settings: WorldSettings & Pick<ExitOptions, "workloads" | "questions" | "concurrency">,
  io: Io,
): Promise<Report> {
  return experiment(settings, io, compareExits, exitReport);
}

/** `canopy bench tau`: the metric of the paper over its parameters. */
export const benchTauCommand = defineCommand({
  name: "bench tau",
  summary: "Latency, exits and wrong exits of the metric q over tau and gamma; simulated",
  maxArguments: 0,
  options: {
    ...workloadOption,
    concurrency: CONCURRENCY_OPTION,
    tau: {
      type: "list",
      value: "SHARE",
      help: `Similarity of the likeliest exit; ${DEFAULT_TAUS.join(", ")} by default`,
    },
    gamma: {
      type: "list",
      value: "SHARE",
      help: `Weight of confidence; ${DEFAULT_GAMMAS.join(", ")} by default`,
    },
    ...worldOptions,
    cost: SIZE_COST_OPTION,
  },
  details: `The workload is ${DEFAULT_WORKLOAD} by default.

${WORKLOAD_HELP}

Example:
  canopy bench tau --questions 20 --json tau.json`,
  run: async (values, _, io) => {
    const settings = {
      ...worldSettings(values),
      ...costSettings(values.cost, io),
      workloads: workloadsOf(values.workload, io, [DEFAULT_WORKLOAD]),
      questions: values.questions ?? DEFAULT_QUESTIONS.tau,
      concurrency: values.concurrency,
      taus: values.tau.length === 0 ? DEFAULT_TAUS : values.tau.map((text) => shareOf("tau", text)),
      gammas: values.gamma.length === 0 ? DEFAULT_GAMMAS : values.gamma.map((text) => shareOf("gamma", text)),
    };
    return await writeReport(await experiment(settings, io, sweepTau, tauReport), values, io);
  },
});

function shareOf(option: string, text: string): number {
  const number = text.trim() === "" ? NaN : Number(text);
  if (number >= 0 && number <= 1) return number;
  throw new UsageError(`Option --${option} must be a number from 0 to 1: current value is "${text}"`);
}
