import { shippedWorkload } from "../../bench/experiments/workloads/shipped_workloads.ts";
import { exitOf } from "./exit.ts";
import {
  chunkOf,
  DEFAULT_QUESTIONS,
  DEFAULT_STEPS,
  PREFILL_DEFAULTS,
  prefillOf,
  runReport,
  worldOptions,
  worldSettings,
} from "./experiment.ts";
import { costSettings, SIZE_COST_OPTION } from "./model_costs.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { writeReport } from "../kit/report_output.ts";
import { workloadsOf } from "./workloads.ts";

/** `canopy bench all`: the simulated experiments as they are by default. */
export const benchAllCommand = defineCommand({
  name: "bench all",
  summary: "The simulated experiments run, prefill, chunk and exit, as they are by default, into a folder",
  arguments: "FOLDER",
  maxArguments: 1,
  options: {
    seed: worldOptions.seed,
    serving: worldOptions.serving,
    slots: worldOptions.slots,
    cost: SIZE_COST_OPTION,
  },
  details:
    `Writes run, prefill, chunk and exit (four chat questions) as .json and .svg into FOLDER, which must exist.

Example:
  canopy bench all results`,
  run: async (values, [folder], io) => {
    if (folder === undefined) throw new UsageError("Needs the folder to write to: canopy bench all FOLDER");
    const settings = {
      ...worldSettings({ ...values, "engine-version": undefined }),
      ...costSettings(values.cost, io),
    };
    const workloads = workloadsOf([], io);
    const { run, prefill, chunk } = DEFAULT_QUESTIONS;
    const reports = {
      run: () => runReport({ ...settings, workloads, questions: run, concurrency: [1] }, io),
      prefill: () => prefillOf({ ...settings, ...PREFILL_DEFAULTS, questions: prefill }, io),
      chunk: () => chunkOf({ ...settings, workloads, questions: chunk, chunkTokens: DEFAULT_STEPS }, io),
      exit: () =>
        exitOf({ ...settings, workloads: [shippedWorkload("chat")], questions: 4, concurrency: 1 }, io),
    };
    for (const [name, make] of Object.entries(reports)) {
      const files = { json: `${folder}/${name}.json`, svg: `${folder}/${name}.svg` };
      await writeReport(await make(), files, io);
    }
    return 0;
  },
});
