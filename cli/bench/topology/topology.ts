import { EXIT_FORMS, exitRuleOf } from "../../../bench/experiments/topology/exit_rules.ts";
import { type PlayedFigure, playTopology } from "../../../bench/experiments/topology/play_topology.ts";
import { type FoundTopology, searchTopology } from "../../../bench/experiments/topology/topology.ts";
import { SIZES } from "../../../bench/experiments/world.ts";
import { topologyReport } from "../../../bench/report/topology_report.ts";
import { loadCheckedConfig } from "../../../cfgs/load/load.ts";
import { UsageError } from "../../kit/args.ts";
import { defineCommand } from "../../kit/command.ts";
import type { Io } from "../../kit/io.ts";
import { Progress } from "../../kit/progress.ts";
import { REPORT_OPTIONS, writeReport, writeResult } from "../../kit/report_output.ts";
import { originOf, wholeNumberOf } from "../experiment.ts";
import { COST_OPTION } from "../model_costs.ts";
import { WORKLOAD_HELP } from "../workloads.ts";
import { RECOMMENDED_GRAPH, topologyConfigText } from "./topology_config.ts";
import { type TopologyInput, topologyInput } from "./topology_input.ts";

const DEFAULTS = {
  depths: [1, 2, 3],
  widths: [3, 9],
  exits: ["none", "agree:3", "posterior:0.95", "answer"],
  play: 50,
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
    answers: {
      type: "text",
      value: "FILE",
      help: "Answers of models that bench eval --records has kept, in place of scripted ones",
    },
    cost: COST_OPTION,
    depth: { type: "list", value: "N", help: "Layers, the root's included; 1, 2 and 3 by default" },
    width: { type: "list", value: "N", help: "Agents of the first layer; 3 and 9 by default" },
    model: {
      type: "list",
      value: "NAME",
      help: `Models to use: ${SIZES.join(", ")}, or recorded ones; all by default`,
    },
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
      help: "Half of them choose, half predict; 400 by default, of recorded ones all",
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

With --answers agents that read nobody give recorded answers of their models: as many for each question as a first
layer is wide (bench eval --repeats). Of recorded questions a fifth at most is kept to be played.

${WORKLOAD_HELP}

Examples:
  canopy bench topology --budget-ms 5000 --write canopy.jsonc --html topology.html
  canopy bench topology --budget-tokens 1500 --exit none --exit agree:2 --width 3 --width 5
  canopy bench topology --answers gsm8k.jsonl --cost small=8b --cost large=32b --width 5`,
  run: async (values, _, io) => {
    const { play = DEFAULTS.play, seed = "canopy", serving = "sglang-pd", depth, exit } = values;
    const input = topologyInput(values, { seed, fresh: play === 0 ? DEFAULTS.play : play }, io);
    const settings: TopologySettings = {
      depths: depth.length === 0 ? DEFAULTS.depths : depth.map((text) => wholeNumberOf("depth", text, 1, 5)),
      widths: widthsOf(values.width, input),
      exits: exit.length === 0 ? DEFAULTS.exits : exit.map(exitNamed),
      budget: { latencyMs: values["budget-ms"], tokens: values["budget-tokens"] },
      play: play > 0,
      serving,
      seed,
    };
    return await searched(input, settings, values, io);
  },
});

/** What a search is asked for. */
interface TopologySettings {
  readonly depths: readonly number[];
  readonly widths: readonly number[];
  readonly exits: readonly string[];
  readonly budget: { readonly latencyMs: number | undefined; readonly tokens: number | undefined };
  readonly play: boolean;
  readonly serving: "sglang-pd" | "sglang";
  readonly seed: string;
}

type Files = Parameters<typeof writeReport>[1] & { readonly write: string | undefined };

async function searched(
  input: TopologyInput,
  settings: TopologySettings,
  files: Files,
  io: Io,
): Promise<number> {
  const { serving, seed } = settings;
  const { name, models, questions, fresh, atOnce, assumptions } = input;
  const pairs = serving === "sglang-pd";
  const gpus = models.length * (pairs ? 2 : 1);
  const measured = models.some(({ cost }) => typeof cost === "object");
  const hardware = `${gpus} ${measured ? "calibrated servers" : "H200 GPUs"}`;
  const origin = originOf({ serving, seed, slots: "completion" }, hardware);
  const progress = new Progress(io);
  const onPart = (part: string) => {
    if (io.err.isTerminal) progress.show(part);
  };
  try {
    const found = await searchTopology({
      ...settings,
      models,
      questions,
      atOnce,
      next: fresh.length,
      pairs,
      clock: io.clock,
      signal: io.stop,
      onPart,
    });
    const { candidate, search } = found;
    const config = candidate && topologyConfigText({ candidate, search, serving, origin, asked: name });
    const played = await playedFigures({ found, config, input, settings }, onPart, io);
    progress.end();
    const shown = { ...settings, asked: name, models, questions: questions.length, atOnce };
    const report = topologyReport(search, {
      origin,
      asked: name,
      assumptions,
      settings: shown,
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

/** The recommendation as its configuration says, on questions that were not searched with. */
async function playedFigures(
  { found: { search: { recommended } }, config, input, settings }: {
    readonly found: FoundTopology;
    readonly config: string | undefined;
    readonly input: TopologyInput;
    readonly settings: TopologySettings;
  },
  onPart: (part: string) => void,
  io: Io,
): Promise<PlayedFigure[] | undefined> {
  if (config === undefined || recommended === undefined || !settings.play) return undefined;
  const { seed, serving } = settings;
  const { models, fresh, atOnce } = input;
  const { graphs } = loadCheckedConfig({ path: "recommended.jsonc", text: config, env: {} }).config;
  onPart(`${recommended.name}, played`);
  return await playTopology({
    serving,
    seed,
    models,
    graph: { ...graphs[RECOMMENDED_GRAPH] },
    questions: fresh,
    concurrency: atOnce,
    signal: io.stop,
  }, recommended.next);
}

/** Throws `UsageError` for a first layer that has more agents than there are recorded answers of a model. */
function widthsOf(given: readonly string[], { widest }: TopologyInput): readonly number[] {
  const asked = given.map((text) => wholeNumberOf("width", text, 2, 64));
  const wider = asked.find((width) => width > widest);
  if (wider !== undefined) {
    throw new UsageError(
      `Option --width ${wider} needs ${wider} recorded answers of each model to each question, and there are ` +
        `${widest}: record more with canopy bench eval --repeats ${wider}`,
    );
  }
  if (asked.length > 0) return asked;
  const widths = DEFAULTS.widths.filter((width) => width <= widest);
  return widths.length > 0 || widest < 2 ? widths : [widest];
}

function exitNamed(name: string): string {
  if (exitRuleOf(name, {}) !== undefined) return name;
  throw new UsageError(
    `Option --exit must be one of ${EXIT_FORMS.join(", ")}, K at least 2 and P above 0.5 and below 1: ` +
      `current value is "${name}"`,
  );
}
