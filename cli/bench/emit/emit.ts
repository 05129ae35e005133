import type { EmittedFile } from "../../../launcher/emit/emitted.ts";
import { UsageError } from "../../kit/args.ts";
import { defineCommand } from "../../kit/command.ts";
import { printEmitted, writeEmitted } from "../../kit/emitted_files.ts";
import type { Io } from "../../kit/io.ts";
import { DEFAULT_URL } from "../../kit/server_place.ts";
import { version } from "../../kit/version.ts";
import { EVAL_OPTIONS } from "../eval/eval_options.ts";
import { loadChoice } from "../eval/eval_targets.ts";
import { OUTPUT_OPTIONS } from "../eval/experiment_file.ts";
import { type EvalRequest, evalRequest } from "../eval/experiment_request.ts";
import { checkSetName } from "../question_source.ts";
import type { EvalJob } from "./eval_job.ts";
import { experimentForPods, experimentText, membersFrom, pathFrom } from "./emitted_experiment.ts";
import { BENCH_FOLDER, EXPERIMENT_IN_POD, indexedJob } from "./indexed_job.ts";
import { slurmArray } from "./slurm_array.ts";

const { shard: _, ...ASKED } = EVAL_OPTIONS;

const TARGETS = ["slurm", "kubernetes"] as const;

/** An experiment of options, as it is written beside the scripts. */
const EXPERIMENT_FILE = "experiment.jsonc";
const RECORDS_FILE = "records.jsonl";

/** `canopy bench emit`: an evaluation in parts, for a scheduler. */
export const benchEmitCommand = defineCommand({
  name: "bench emit",
  summary:
    "Write a Slurm array and a Kubernetes Job that ask an evaluation in parts, and make one report of them",
  arguments: "SET…",
  maxArguments: 100,
  options: {
    shards: {
      type: "number",
      value: "N",
      min: 1,
      max: 10_000,
      help: "Parts: tasks of the array, pods of the Job",
    },
    parallel: {
      type: "number",
      value: "N",
      min: 1,
      max: 10_000,
      help: "Parts that run at the same time; all by default",
    },
    target: { type: "list", value: "TARGET", choices: TARGETS, help: "Write files for this one only" },
    out: { type: "text", value: "FOLDER", help: "Where files are written; standard output by default" },
    force: { type: "flag", help: "Overwrite files that are there already" },
    "canopy-image": {
      type: "text",
      value: "IMAGE",
      help: `Container image of Canopy in the Job; canopy:${version} by default`,
    },
    "canopy-binary": {
      type: "text",
      value: "PATH",
      help: "Canopy's binary on Slurm's hosts; canopy, as found on the path there, by default",
    },
    ...ASKED,
  },
  details:
    `SETs and options are those of bench eval, or of its --experiment. An experiment file without other options is named
by the scripts as it is; else they come with one, ${EXPERIMENT_FILE}. Nothing is asked, submitted or fetched.

For Slurm: eval.sbatch, an array, and merge.sbatch; submit both from their folder. For Kubernetes: eval.yaml, an
indexed Job with the experiment and a volume, and merge.yaml. Merging makes the report; one that no option names is
written as .html and .json beside the records. Each part keeps records and goes on behind them when it starts again.

Examples:
  canopy bench emit --experiment fig4.jsonc --shards 16 --out jobs
  canopy bench emit gsm8k mmlu --data hub --url http://canopy:8000 --mode moa --shards 8 --target slurm --out jobs`,
  run: async (flags, names, io) => {
    const { shards, parallel, out } = flags;
    if (shards === undefined) throw new UsageError("Needs the number of parts: --shards N");
    const request = evalRequest({ ...flags, shard: undefined }, names, io);
    checkRequest(request, io);
    const targets = flags.target.length === 0 ? TARGETS : flags.target;
    const folder = out ?? ".";
    const isAsItStands = request.experiment?.overrides.length === 0 &&
      OUTPUT_OPTIONS.every((name) => flags[name] === undefined);
    const files: EmittedFile[] = [];
    if (targets.includes("slurm")) {
      const { experiment, members } = request;
      const moved = membersFrom(members, folder, io);
      if (!isAsItStands) files.push({ path: EXPERIMENT_FILE, text: experimentText(moved) });
      const name = !isAsItStands || experiment === undefined
        ? EXPERIMENT_FILE
        : experiment.shipped
        ? experiment.name
        : pathFrom(experiment.name, folder, io.cwd);
      const job = jobOf(moved, { experiment: name, records: RECORDS_FILE, shards, parallel });
      files.push(...slurmArray(job, flags["canopy-binary"] ?? "canopy"));
    }
    if (targets.includes("kubernetes")) {
      const { members, configs } = experimentForPods(request.members, io);
      const records = `${BENCH_FOLDER}/${RECORDS_FILE}`;
      const job = jobOf(members, { experiment: EXPERIMENT_IN_POD, records, shards, parallel });
      const image = flags["canopy-image"] ?? `canopy:${version}`;
      files.push(...indexedJob(job, { experiment: experimentText(members), configs, image }));
    }
    if (out === undefined) printEmitted(files, io);
    else {
      const path = request.experiment?.name;
      const input = path === undefined ? undefined : { path, what: "the experiment" };
      writeEmitted(files, { folder, input, force: flags.force }, io);
    }
    return await Promise.resolve(0);
  },
});

function jobOf(
  members: EvalRequest["members"],
  { records, ...job }: Pick<EvalJob, "experiment" | "records" | "shards" | "parallel">,
): EvalJob {
  const named = members["records"];
  return {
    ...job,
    records: typeof named === "string" ? named : records,
    namesRecords: named !== undefined,
    namesReport: OUTPUT_OPTIONS.some((name) => name !== "records" && members[name] !== undefined),
  };
}

/** Refuses what no task could do, and says what tasks elsewhere may not find. Throws `UsageError` and `ConfigError`. */
function checkRequest({ sets, values, experiment }: EvalRequest, io: Pick<Io, "env" | "err">): void {
  if (sets.length === 0) {
    throw new UsageError("Needs a data set: canopy bench emit SET…, or --experiment FILE with sets");
  }
  for (const set of sets) checkSetName(set);
  if (values.shard !== undefined) {
    throw new UsageError(
      `Leave "shard" out of ${experiment?.name ?? "the experiment"}: --shards makes the parts`,
    );
  }
  const configs = values.config.map((choice) => loadChoice(choice, io).config);
  const addresses = values.simulate ? [] : configs.flatMap(({ models }) => Object.values(models)).flatMap(
    ({ workers }) =>
      workers.flatMap((worker) =>
        typeof worker === "string"
          ? [worker]
          : "url" in worker
          ? [worker.url]
          : [worker.prefill, worker.decode]
      ),
  );
  if (configs.length === 0) addresses.push(values.url ?? DEFAULT_URL);
  const [here] = addresses.filter((url) => /^(\w+:\/\/)?(localhost|127\.|\[::1\])/.test(url));
  if (here !== undefined) {
    io.err.write(
      `${here} is each task's own host, wherever it runs: name servers as they are reached from there\n`,
    );
  }
}
