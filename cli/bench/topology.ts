import { scriptedQuestions } from "../../bench/experiments/scripted_answers.ts";
import { EXIT_FORMS, exitRuleOf } from "../../bench/experiments/topology/exit_rules.ts";
import { type PlayedFigure, playTopology } from "../../bench/experiments/topology/play_topology.ts";
import { type FoundTopology, searchTopology } from "../../bench/experiments/topology/topology.ts";
import { arrivalsOf } from "../../bench/experiments/workloads/question_arrivals.ts";
import type { BenchWorkload } from "../../bench/experiments/workloads/workload_file.ts";
import { SIZES } from "../../bench/experiments/world.ts";
import { topologyReport } from "../../bench/report/topology_report.ts";
import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport, writeResult } from "../kit/report_output.ts";
import { originOf, wholeNumberOf } from "./experiment.ts";
import { RECOMMENDED_GRAPH, topologyConfigText } from "./topology_config.ts";
import { WORKLOAD_HELP, workloadsOf } from "./workloads.ts";

const DEFAULTS = {
  depths: [1, 2, 3],
  widths: [3, 9],
  exits: ["none", "agree:3", "posterior:0.95", "answer"],
  questions: 400,
  play: 50,
};
const MODEL_IDS = {
  "4b": "Qwen/Qwen3-VL-4B-Instruct",
  "8b": "Qwen/Qwen3-VL-8B-Instruct",
  "32b": "Qwen/Qwen3-VL-32B-Instruct",
};

/** `canopy bench topology`: which graph, models and exit are worth what they cost. */
export const benchTopologyCommand = defineCommand({
  name: "bench topology",
  summary: "Search depth, width, models and exits for right answers within a budget; simulated",
  maxArguments: 0,
  options: {
    workload: {
      type: "text",
      value: "NAME|FILE",
      help: "Lengths of questions and answers; chat by default (see bench workloads)",
    },
    depth: { type: "list", value: "N", help: "Layers, the root's included; 1, 2 and 3 by default" },
    width: { type: "list", value: "N", help: "Agents of the first layer; 3 and 9 by default" },
    model: { type: "list", value: "SIZE", choices: [...SIZES], help: "Models to use; all by default" },
    exit: {
      type: "list",
      value: "RULE",
      help: `${EXIT_FORMS.join(", ")}; ${DEFAULTS.exits.join(", ")} by default`,
    },
    "budget-ms": {
      type: "number",
      value: "MS",
      min: 1,
      help: "Longest mean latency of a question that is recommended, in ms",
    },
    "budget-tokens": {
      type: "number",
      value: "N",
      min: 1,
      help: "Most tokens written for a question, as a mean, that are recommended",
    },
    questions: {
      type: "number",
      value: "N",
      min: 20,
      max: 10_000,
      help: `Half of them choose, half predict; ${DEFAULTS.questions} by default`,
    },
    play: {
      type: "number",
      value: "N",
      min: 0,
      max: 10_000,
      help:
        `Fresh questions for the router with what is recommended; ${DEFAULTS.play} by default, 0 for none`,
    },
    concurrency: {
      type: "number",
      value: "N",
      min: 1,
      max: 1_000,
      help: "Questions at the same time; by default as the workload says: one",
    },
    serving: {
      type: "text",
      value: "KIND",
      choices: ["sglang-pd", "sglang"],
      help: "One prefill and one decode GPU per model, or one GPU that does both; sglang-pd by default",
    },
    seed: { type: "text", value: "TEXT", help: "The same seed gives the same figures; canopy by default" },
    write: {
      type: "text",
      value: "FILE",
      help: "Write the configuration that is recommended (JSON with comments)",
    },
    ...REPORT_OPTIONS,
    html: { type: "text", value: "FILE", help: "Write the report to this file as one HTML page" },
  },
  details:
    `Every graph of the grid answers the same questions, costed on the cost model of H200 GPUs. Layers have a third of
the agents of the one before; their models are one, or all in turn, and never smaller than before. Exits: agree:K ends
the run when K answers agree, posterior:P when the leading one is right with probability P, answer ends clusters whose
majority is settled, q is the paper's metric, costed as chance (85 % from the second answer on).

Recommended is the cheapest graph within the budget that is as right as the best one, as far as can be told. Without a
budget it is so of all. It is then asked fresh questions by the real router. The exit code is 1 where nothing is within
the budget.

${WORKLOAD_HELP}

Examples:
  canopy bench topology --budget-ms 5000 --write canopy.jsonc --html topology.html
  canopy bench topology --budget-tokens 1500 --exit none --exit agree:2 --width 3 --width 5`,
  run: async (values, _, io) => {
    const [workload] = workloadsOf(values.workload === undefined ? [] : [values.workload], io, ["chat"]);
    if (workload === undefined) throw new UsageError("Option --workload needs a name or a file");
    const { depth, width, model, play: next = DEFAULTS.play } = values;
    const settings = {
      workload,
      depths: depth.length === 0 ? DEFAULTS.depths : depth.map((text) => wholeNumberOf("depth", text, 1, 5)),
      widths: width.length === 0 ? DEFAULTS.widths : width.map((text) => wholeNumberOf("width", text, 2, 64)),
      models: SIZES.filter((size) => model.length === 0 || model.includes(size)),
      exits: values.exit.length === 0 ? DEFAULTS.exits : values.exit.map(exitNamed),
      budget: { latencyMs: values["budget-ms"], tokens: values["budget-tokens"] },
      questions: values.questions ?? DEFAULTS.questions,
      next: next === 0 ? DEFAULTS.play : next,
      play: next > 0,
      atOnce: values.concurrency ?? atOnceOf(workload, next),
      serving: values.serving ?? "sglang-pd",
      seed: values.seed ?? "canopy",
    } as const;
    return await searched(settings, values, io);
  },
});

/** What a search is asked for. */
interface TopologySettings {
  readonly workload: BenchWorkload;
  readonly depths: readonly number[];
  readonly widths: readonly number[];
  readonly models: readonly (typeof SIZES)[number][];
  readonly exits: readonly string[];
  readonly budget: { readonly latencyMs: number | undefined; readonly tokens: number | undefined };
  readonly questions: number;
  readonly next: number;
  readonly play: boolean;
  readonly atOnce: number;
  readonly serving: "sglang-pd" | "sglang";
  readonly seed: string;
}

async function searched(
  settings: TopologySettings,
  files: Parameters<typeof writeReport>[1] & { readonly write: string | undefined },
  io: Io,
): Promise<number> {
  const { workload, serving, seed, questions, models } = settings;
  const origin = originOf({ serving, seed, slots: "completion" });
  const progress = new Progress(io);
  const onPart = (part: string) => {
    if (io.err.isTerminal) progress.show(part);
  };
  try {
    const found = await searchTopology({
      ...settings,
      models: models.map((name) => ({ name, cost: name })),
      questions: scriptedQuestions(workload, questions, seed),
      pairs: serving === "sglang-pd",
      clock: io.clock,
      signal: io.stop,
      onPart,
    });
    const { candidate, search } = found;
    const config = candidate === undefined ? undefined : topologyConfigText({
      candidate,
      search,
      serving,
      origin,
      workload: workload.name,
      modelIds: MODEL_IDS,
    });
    const played = await playedFigures(found, config, { ...settings, onPart }, io);
    progress.end();
    const report = topologyReport(search, {
      origin,
      workload: workload.name,
      settings: { ...settings },
      played,
      config,
    });
    const code = await writeReport(report, files, io);
    if (config === undefined) return 1;
    if (files.write !== undefined) writeResult(files.write, config, io);
    return code;
  } finally {
    progress.end();
  }
}

/** The recommendation as its configuration says, on questions of another seed. */
async function playedFigures(
  { search: { recommended } }: FoundTopology,
  config: string | undefined,
  settings: TopologySettings & { readonly onPart: (part: string) => void },
  io: Io,
): Promise<PlayedFigure[] | undefined> {
  if (config === undefined || recommended === undefined || !settings.play) return undefined;
  const { workload, next, seed, serving, atOnce } = settings;
  const { graphs } = loadCheckedConfig({ path: "recommended.jsonc", text: config, env: {} }).config;
  settings.onPart(`${recommended.name}, played`);
  return await playTopology({
    serving,
    seed,
    graph: { ...graphs[RECOMMENDED_GRAPH] },
    questions: scriptedQuestions(workload, next, `${seed}/fresh`),
    concurrency: atOnce,
    signal: io.stop,
  }, recommended.next);
}

function exitNamed(name: string): string {
  if (exitRuleOf(name, {}) !== undefined) return name;
  throw new UsageError(
    `Option --exit must be one of ${EXIT_FORMS.join(", ")}, K at least 2 and P above 0.5 and below 1: ` +
      `current value is "${name}"`,
  );
}

/** Throws `UsageError` for a workload that is asked by the second. */
function atOnceOf(workload: BenchWorkload, questions: number): number {
  const arrivals = arrivalsOf(workload, Math.max(1, questions));
  if (typeof arrivals === "number") return arrivals;
  throw new UsageError(
    `Workload ${workload.name} has questions that come at random, which are not costed: add --concurrency N`,
  );
}
