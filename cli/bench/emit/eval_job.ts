import { shardFile } from "../eval/shard.ts";

/** An evaluation that is asked in parts, by a scheduler. */
export interface EvalJob {
  /** Experiment file, or shipped experiment, as the jobs name it. */
  readonly experiment: string;
  /** File of the whole's records, as the jobs see it. */
  readonly records: string;
  /** True where the experiment names its records itself. */
  readonly namesRecords: boolean;
  /** True where the experiment names a report to write. */
  readonly namesReport: boolean;
  readonly shards: number;
  /** Parts that run at the same time; all by default. */
  readonly parallel: number | undefined;
}

/** Arguments of `canopy` that ask one part, which the scheduler's variables name. */
export function partArguments(job: EvalJob): string[] {
  return [...evalArguments(job), "--shard=auto"];
}

/** Arguments that put the parts' records together, as far as they are there: a part may have failed for good. */
export function mergeArguments({ records, shards }: EvalJob): string[] {
  const parts = Array.from(
    { length: shards },
    (_, index) => shardFile(records, { part: index + 1, parts: shards }),
  );
  return ["bench", "merge", "--force", "--partial", "--", records, ...parts];
}

/** Arguments that make the report of all parts; without a file of its own it is written beside the records. */
export function reportArguments(job: EvalJob): string[] {
  const base = job.records.replace(/\.[^./\\]+$/, "");
  const reports = job.namesReport ? [] : [`--html=${base}.html`, `--json=${base}.json`];
  return [...evalArguments(job), ...reports];
}

function evalArguments({ experiment, records, namesRecords }: EvalJob): string[] {
  return ["bench", "eval", `--experiment=${experiment}`, ...namesRecords ? [] : [`--records=${records}`]];
}
