import { measureStaircase } from "../../bench/experiments/staircase.ts";
import { staircaseReport } from "../../bench/report/staircase_report.ts";
import { defineCommand } from "../kit/command.ts";
import { writeReport } from "../kit/report_output.ts";
import { experiment, worldOptions, worldSettings } from "./experiment.ts";
import { costSettings, SIZE_COST_OPTION } from "./model_costs.ts";
import { WORKLOAD_HELP, workloadOption, workloadsOf } from "./workloads.ts";

/** Questions of each workload by default: under a minute for all. */
const DEFAULT_QUESTIONS = 8;

/** `canopy bench staircase`: first words of a root that does not wait. */
export const benchStaircaseCommand = defineCommand({
  name: "bench staircase",
  summary:
    "Time to the first word of a staircase, beside the tree's and the largest model's alone; simulated",
  maxArguments: 0,
  options: {
    ...workloadOption,
    concurrency: {
      type: "number",
      value: "N",
      min: 1,
      max: 10_000,
      help: "Questions at the same time; by default as the workload says: one",
    },
    ...worldOptions,
    cost: SIZE_COST_OPTION,
  },
  details: `${WORKLOAD_HELP}

Simulated models say random words: what a staircase does to answers, "canopy bench laboratory --part staircase"
asks real small models.

Example:
  canopy bench staircase --workload chat --questions 10 --json staircase.json`,
  run: async (values, _, io) => {
    const settings = {
      ...worldSettings(values),
      ...costSettings(values.cost, io),
      workloads: workloadsOf(values.workload, io),
      questions: values.questions ?? DEFAULT_QUESTIONS,
      concurrency: values.concurrency,
    };
    return await writeReport(await experiment(settings, io, measureStaircase, staircaseReport), values, io);
  },
});
