import { UsageError } from "../../kit/args.ts";
import type { Io } from "../../kit/io.ts";
import type { PickedSet } from "../question_source.ts";

/** One part of several, both counted from 1. */
export interface Shard {
  readonly part: number;
  readonly parts: number;
}

/** Variable that says into how many parts an evaluation is cut, for `--shard auto`. */
export const SHARD_COUNT = "CANOPY_SHARD_COUNT";

/** The part that `--shard` names; `auto` is looked up in the environment of a job. Throws `UsageError` for none. */
export function readShard(text: string, env: Io["env"]): Shard {
  if (text === "auto") return shardOfJob(env);
  const [, part, parts] = (/^([1-9]\d{0,4})\/([1-9]\d{0,4})$/.exec(text) ?? []).map(Number);
  if (part !== undefined && parts !== undefined && part <= parts) return { part, parts };
  throw new UsageError(
    `Option --shard must be I/N such as 2/4, I from 1 to N, or auto: current value is "${text}"`,
  );
}

/**
 * The part of a task of a Slurm array, or of a pod of an indexed Job. Slurm's own count is that of the tasks which were
 * submitted together: one that is submitted again alone would be all of it, so that CANOPY_SHARD_COUNT goes before it.
 */
function shardOfJob(env: Io["env"]): Shard {
  const count = wholeNumber(SHARD_COUNT, env);
  const task = wholeNumber("SLURM_ARRAY_TASK_ID", env);
  if (task !== undefined) {
    if (count !== undefined) return checked(task, count, "SLURM_ARRAY_TASK_ID, from 1 on,");
    const [first, last, tasks] = ["MIN", "MAX", "COUNT"].map((name) =>
      wholeNumber(`SLURM_ARRAY_TASK_${name}`, env)
    );
    if (first === undefined || tasks === undefined) {
      throw new UsageError(
        `Option --shard auto has SLURM_ARRAY_TASK_ID and no count: set ${SHARD_COUNT} to the number of parts`,
      );
    }
    const step = wholeNumber("SLURM_ARRAY_TASK_STEP", env) ?? 1;
    const at = (task - first) / step;
    if (!Number.isInteger(at) || (last !== undefined && (last - first) / step + 1 !== tasks)) {
      throw new UsageError(
        `Option --shard auto needs tasks at equal steps, such as --array=1-${tasks}: of others set ${SHARD_COUNT}`,
      );
    }
    return checked(at + 1, tasks, "SLURM_ARRAY_TASK_ID");
  }
  const index = wholeNumber("JOB_COMPLETION_INDEX", env);
  if (index !== undefined) {
    if (count !== undefined) return checked(index + 1, count, "JOB_COMPLETION_INDEX, from 0 on,");
    throw new UsageError(
      `Option --shard auto has JOB_COMPLETION_INDEX and no count: set ${SHARD_COUNT} to the Job's completions`,
    );
  }
  throw new UsageError(
    "Option --shard auto is for the tasks of a Slurm array (SLURM_ARRAY_TASK_ID) and the pods of an indexed " +
      "Kubernetes Job (JOB_COMPLETION_INDEX), and neither variable is set: write I/N",
  );
}

function checked(part: number, parts: number, name: string): Shard {
  if (part >= 1 && part <= parts) return { part, parts };
  throw new UsageError(`Option --shard auto: ${name} is no part of ${parts}: it comes to part ${part}`);
}

function wholeNumber(name: string, env: Io["env"]): number | undefined {
  const text = env[name];
  if (text === undefined || text === "") return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`Variable ${name} must be a whole number: current value is "${text}"`);
}

/** The questions of a part, equally many of each set. */
export function shardQuestions(sets: readonly PickedSet[], { part, parts }: Shard): readonly PickedSet[] {
  return sets.map((set) => ({
    ...set,
    questions: set.questions.filter((_, index) => index % parts === part - 1),
  }));
}

/** A file beside that of the whole for a part: `runs/r.jsonl` becomes `runs/r.2-of-8.jsonl`. */
export function shardFile(path: string, { part, parts }: Shard): string {
  return path.replace(/(\.[^./\\]+)?$/, (ending) => `.${part}-of-${parts}${ending}`);
}
