import type { EmittedFile } from "../../../launcher/emit/emitted.ts";
import { quoted } from "../../../launcher/plan/plan_text.ts";
import { SHARD_COUNT } from "../eval/shard.ts";
import { type EvalJob, mergeArguments, partArguments, reportArguments } from "./eval_job.ts";

/** Batch scripts for Slurm: an array with a task for each part, and what makes one report of them. */
export function slurmArray(job: EvalJob, canopyBinary: string): EmittedFile[] {
  const line = (args: readonly string[]) => [canopyBinary, ...args].map(quoted).join(" ");
  const atOnce = job.parallel === undefined ? "" : `%${job.parallel}`;
  const evaluation = [
    "#!/usr/bin/env bash",
    "#SBATCH --job-name=canopy-bench",
    `#SBATCH --array=1-${job.shards}${atOnce}`,
    ...RESOURCES,
    // A task that is stopped, or starts again, goes on behind the records that it has.
    "#SBATCH --requeue",
    "#SBATCH --open-mode=append",
    "#SBATCH --signal=B:TERM@60",
    "#SBATCH --output=canopy-bench-%A_%a.log",
    "",
    "# Submit from this folder:",
    "#   array=$(sbatch --parsable eval.sbatch)",
    '#   sbatch --dependency="afterany:$array" merge.sbatch',
    "# A task fails where a request had no answer. It goes on where it was: sbatch --array=3 eval.sbatch",
    "# Merging starts all the same, says which parts have no records, and asks for what has no answer.",
    ...START,
    "# How many parts there are, also where one of them is submitted again alone.",
    `export ${SHARD_COUNT}=${job.shards}`,
    `exec ${line(partArguments(job))}`,
    "",
  ];
  const merge = [
    "#!/usr/bin/env bash",
    "#SBATCH --job-name=canopy-bench-merge",
    ...RESOURCES,
    "#SBATCH --output=canopy-bench-merge-%j.log",
    "",
    "# All parts' records in one file, and the report of it, which asks only what still has no answer.",
    "# It fails where that has none again: its report is written, and says how many.",
    ...START,
    line(mergeArguments(job)),
    `exec ${line(reportArguments(job))}`,
    "",
  ];
  return [
    { path: "eval.sbatch", text: evaluation.join("\n") },
    { path: "merge.sbatch", text: merge.join("\n") },
  ];
}

/** Enough to ask servers elsewhere; models in the program's own process need more. */
const RESOURCES = [
  "#SBATCH --ntasks=1",
  "#SBATCH --cpus-per-task=2",
  "#SBATCH --mem=4G",
  "#SBATCH --time=24:00:00",
];

const START = ["set -euo pipefail", 'cd "${SLURM_SUBMIT_DIR:-.}"'];
