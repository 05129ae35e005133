import { CHAT_PROTOCOL } from "../../../bench/protocols/chat.ts";
import { LM_EVAL_VERSION, lmEvalProtocol, lmEvalTask } from "../../../bench/protocols/lm_eval/lm_eval.ts";
import { LM_EVAL_TASKS, type LmEvalTask } from "../../../bench/protocols/lm_eval/tasks.ts";
import type { EvalProtocol } from "../../../bench/protocols/protocol.ts";
import { UsageError } from "../../kit/args.ts";
import type { OptionValues } from "../../kit/command.ts";
import type { PickedSet } from "../question_source.ts";

const TASK_NAMES = [...new Set(Object.values(LM_EVAL_TASKS).flatMap((tasks) => Object.keys(tasks)))];

/** Options that say how questions are asked, and how answers are read. */
export const PROTOCOL_OPTIONS = {
  protocol: {
    type: "text",
    value: "NAME",
    choices: ["chat", "lm-eval"],
    help: "How it is asked, and how answers are read; chat by default",
  },
  task: {
    type: "list",
    value: "NAME",
    choices: TASK_NAMES,
    help:
      "Task of lm-eval where there are several for a set: minerva_math500 for math500, mmlu_generative for mmlu",
  },
} as const;

/** A protocol as it was chosen. */
export interface ChosenProtocol {
  readonly protocol: EvalProtocol;
  /** What records depend on beside the prompts' names. */
  readonly settings: {
    readonly protocol: string;
    readonly tasks?: readonly string[];
    readonly readings: string;
  };
  /** Where figures are not those of lm-eval's tasks; sentences. */
  readonly remarks: readonly string[];
}

/** The protocol for these sets. Throws `UsageError` for options that do not go together. */
export function chosenProtocol(
  { protocol = "chat", task }: OptionValues<typeof PROTOCOL_OPTIONS>,
  sets: readonly PickedSet[],
): ChosenProtocol {
  if (protocol === "lm-eval") {
    return {
      protocol: lmEvalProtocol(task),
      settings: { protocol, tasks: tasksOf(sets, task), readings: LM_EVAL_VERSION },
      remarks: lmEvalRemarks(sets, task),
    };
  }
  if (task.length > 0) throw new UsageError("Option --task needs --protocol lm-eval: chat has no tasks");
  return { protocol: CHAT_PROTOCOL, settings: { protocol, readings: "canopy" }, remarks: [] };
}

/** Names of lm-eval's tasks for the sets. Throws `UsageError` for a set without one, and a task without a set. */
function tasksOf(sets: readonly PickedSet[], names: readonly string[]): string[] {
  const known = sets.flatMap(({ name }) => Object.keys(LM_EVAL_TASKS[name] ?? {}));
  const unused = names.find((name) => !known.includes(name));
  if (unused !== undefined) {
    throw new UsageError(`Option --task ${unused} is of no set that is asked here: leave it out`);
  }
  return [
    ...new Set(sets.flatMap(({ name, questions }) => questions.map((one) => taskOf(name, names).task(one)))),
  ].sort();
}

function taskOf(set: string, names: readonly string[]): LmEvalTask {
  const task = lmEvalTask(set, names);
  if (task !== undefined) return task;
  throw new UsageError(
    `Option --protocol lm-eval is for the data sets that lm-eval has tasks for, and ${set} is none of them: use chat`,
  );
}

/** Where figures are not those of lm-eval's tasks. */
function lmEvalRemarks(sets: readonly PickedSet[], names: readonly string[]): string[] {
  return [
    `prompts, stops, limits and filters are those of lm-eval ${LM_EVAL_VERSION}'s tasks with --apply_chat_template; each question has a seed of its own`,
    ...sets.flatMap(({ name }) => {
      const { differs } = taskOf(name, names);
      return differs === undefined ? [] : [`${name}: ${differs}`];
    }),
  ];
}
