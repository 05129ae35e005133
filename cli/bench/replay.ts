import { readRecordedGraph, type ReplayRuns, replayRunsOf } from "../../bench/experiments/recorded_graph.ts";
import { REPLAY_MODES, replayRuns } from "../../bench/experiments/replay.ts";
import { replayReport } from "../../bench/report/replay_report.ts";
import { experiment, originOf, worldOptions, worldSettings } from "./experiment.ts";
import { COST_OPTION, modelCosts } from "./model_costs.ts";
import { invalidLines, jsonLinesOf } from "../kit/answers/answer_file.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { writeReport } from "../kit/report_output.ts";

const { questions: _, ...WORLD } = worldOptions;

/** `canopy bench replay`: recorded runs, simulated. */
export const benchReplayCommand = defineCommand({
  name: "bench replay",
  summary: "Simulate recorded runs and compare their latencies with the recorded ones",
  arguments: "FILE",
  maxArguments: 1,
  options: {
    mode: {
      type: "list",
      value: "MODE",
      choices: REPLAY_MODES.map(({ mode }) => mode),
      help: "recorded (the default), off: without incremental prefill (#2), or auto: with it (#3)",
    },
    cost: COST_OPTION,
    html: { type: "text", value: "FILE", help: "Write the report to this file as one HTML page" },
    ...WORLD,
  },
  details:
    `FILE is what "canopy runs export" writes, with or without texts, or - for what is piped in. Each run is
asked again at its recorded time, of the same graph, by agents whose prompts and answers are as long as recorded.

Examples:
  canopy runs export runs.jsonl --model moa
  canopy bench replay runs.jsonl --cost small=4b --cost large=32b --serving vllm --html replay.html
  canopy bench replay runs.jsonl --cost 8b --mode off --mode auto`,
  run: async (values, [file], io) => {
    if (file === undefined) throw new UsageError("Needs the runs to simulate: canopy bench replay FILE");
    const recorded = await readFile(file, io);
    const models = [...new Set(recorded.runs.flatMap(({ agents }) => agents.map(({ model }) => model)))]
      .sort();
    const named = modelCosts(values.cost, models, io);
    const costs = new Map([...named].map(([model, { cost }]) => [model, cost]));
    const texts = Object.fromEntries([...named].map(([model, { text }]) => [model, text]));
    const asked = values.mode.length === 0 ? ["recorded"] : values.mode;
    const settings = {
      ...worldSettings(values),
      runs: recorded.runs,
      modes: REPLAY_MODES.map(({ mode }) => mode).filter((mode) => asked.includes(mode)),
      modelCosts: costs,
    };
    const report = await experiment(settings, io, replayRuns, (figures) => {
      const { runs: _, modelCosts: __, ...shown } = settings;
      const taken = Object.entries(texts).map(([model, text]) => `${model} as ${text}`).join(", ");
      const measured = [...costs.values()].some((cost) => typeof cost !== "string");
      const hardware = `${figures[0]?.gpus ?? 0} ${measured ? "calibrated servers" : "H200 GPUs"}`;
      return replayReport(figures, originOf(settings, hardware), {
        recorded,
        assumed: [`costs of the models (simulated): ${taken}`],
        settings: { ...shown, file, costs: texts, parameters: Object.fromEntries(costs) },
      });
    });
    return await writeReport(report, values, io);
  },
});

/** Throws `invalid_input` for a line that is no record, and where there is nothing to simulate. */
async function readFile(file: string, io: Io): Promise<ReplayRuns> {
  const records = (await jsonLinesOf(file, io, "runs")).map(({ value, number }) => {
    const record = readRecordedGraph(value);
    if (record !== undefined) return record;
    const problem = "it is no record of a run: each line is one, as canopy runs export writes it";
    throw invalidLines({ file, number, what: "runs" }, problem);
  });
  if (records.length === 0) throw invalidLines({ file, what: "runs" }, "there is no run in it");
  const recorded = replayRunsOf(records);
  if (recorded.runs.length > 0) return recorded;
  const reasons = [...recorded.left].map(([why, count]) => `${count} ${why}`).join(", ");
  throw invalidLines(
    { file, what: "runs" },
    `none of its ${records.length} runs can be simulated: ${reasons}`,
  );
}
