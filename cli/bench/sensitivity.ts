import { measureSensitivity } from "../../bench/experiments/sensitivity/sensitivity.ts";
import { sensitivityReport } from "../../bench/report/sensitivity_report.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";
import { costSettings, hardwareText, SIZE_COST_OPTION } from "./model_costs.ts";
import { WORKLOAD_HELP, workloadsOf } from "./workloads.ts";

/** Questions of a workload whose file names no number. */
const DEFAULT_QUESTIONS = 40;

/** `canopy bench sensitivity`: what must hold for the paper's cuts. */
export const benchSensitivityCommand = defineCommand({
  name: "bench sensitivity",
  summary: "Cuts of modes #2 to #4 under many assumptions, and which of them 62, 76 and 90 % need; simulated",
  maxArguments: 0,
  options: {
    workload: {
      type: "text",
      value: "NAME|FILE",
      help: "Lengths from which the assumptions depart; paper by default (see bench workloads)",
    },
    questions: {
      type: "number",
      value: "N",
      min: 1,
      max: 10_000,
      help: "Questions for each set of assumptions; as many as the workload's source had by default",
    },
    cost: SIZE_COST_OPTION,
    seed: { type: "text", value: "TEXT", help: "The same seed gives the same figures; canopy by default" },
    ...REPORT_OPTIONS,
    html: { type: "text", value: "FILE", help: "Write the report to this file as one HTML page" },
  },
  details:
    `Changes the spread of answers' lengths, how alike those of one question are, lengths by model size and by
layer, limits, what successors read, serving, load and exits, one at a time; then adds up those that help until a cut
of the paper is reached, or none adds to it. GPUs are costed, not played with the router: within 3 % of
"canopy bench run" where both can be had, in a thousandth of the time.

${WORKLOAD_HELP}

Examples:
  canopy bench sensitivity
  canopy bench sensitivity --workload reasoning --questions 20 --html sensitivity.html`,
  run: async (values, _, io) => {
    const [workload] = workloadsOf(values.workload === undefined ? [] : [values.workload], io, ["paper"]);
    if (workload === undefined) throw new UsageError("Option --workload needs a name or a file");
    const seed = values.seed ?? "canopy";
    const costs = costSettings(values.cost, io);
    const questions = values.questions ?? workload.samples ?? DEFAULT_QUESTIONS;
    const settings = { workload, seed, questions, ...costs };
    const progress = new Progress(io);
    const onPart = (part: string) => progress.show(part);
    try {
      const result = await measureSensitivity({ ...settings, clock: io.clock, signal: io.stop, onPart });
      const origin = `Simulated, not measured: costed on the cost model of ${
        hardwareText(costs, "H200 GPUs")
      }; seed ${seed}`;
      return await writeReport(sensitivityReport(result, origin, settings), values, io);
    } finally {
      progress.end();
    }
  },
});
