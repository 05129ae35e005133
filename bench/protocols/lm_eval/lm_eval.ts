import type { AnswerGrade } from "../../grading/answer_grade.ts";
import { gradeAnswer } from "../../grading/grade_answer.ts";
import type { EvalProtocol } from "../protocol.ts";
import { LM_EVAL_TASKS, type LmEvalTask, type TaskFilter } from "./tasks.ts";

/** The lm-eval whose tasks these are; they were compared with it answer by answer. */
export const LM_EVAL_VERSION = "0.4.13";
/** Tokens that lm-eval lets a model write where a task sets no limit. */
const MAX_TOKENS = 256;
/** Stops that lm-eval sends at most, as OpenAI's API takes them. */
const MAX_STOPS = 4;

/** lm-eval's task for a set: the one named, or its first. Undefined where lm-eval has none. */
export function lmEvalTask(set: string, names: readonly string[] = []): LmEvalTask | undefined {
  const tasks = Object.hasOwn(LM_EVAL_TASKS, set) ? LM_EVAL_TASKS[set]! : {};
  const name = Object.keys(tasks).find((task) => names.includes(task)) ?? Object.keys(tasks)[0];
  return name === undefined ? undefined : tasks[name];
}

/**
 * The protocol `lm-eval`: its tasks' prompts, stops, limits and filters, for chat models. Each filter is a reading;
 * `canopy` is what the graders of the protocol `chat` find in the same text.
 */
export function lmEvalProtocol(taskNames: readonly string[]): EvalProtocol {
  return {
    name: "lm-eval",
    task: ({ set, question }) => ({ name: taskFor(set, taskNames).task(question) }),
    ask: ({ set, question }) => {
      const { description, examples = [], prompt, stop, maxTokens = MAX_TOKENS } = taskFor(set, taskNames);
      const system = description === undefined
        ? []
        : [{ role: "system", content: description(question) } as const];
      return {
        messages: [
          ...system,
          ...examples.flatMap(([asked, answer]) => [
            { role: "user", content: asked } as const,
            { role: "assistant", content: answer } as const,
          ]),
          { role: "user", content: prompt(question) },
        ],
        stop: stop.slice(0, MAX_STOPS),
        maxTokens,
        temperature: 0,
      };
    },
    read: async ({ set, question }, text, openSandbox) => {
      const task = taskFor(set, taskNames);
      const gold = task.gold(question);
      return Object.fromEntries([
        ...task.filters(question).map((filter) => [filter.name, readingOf(filter, text, gold)] as const),
        ["canopy", await gradeAnswer(question, text, openSandbox)] as const,
      ]);
    },
  };
}

function readingOf({ extract, matches }: TaskFilter, text: string, gold: string): AnswerGrade {
  const stated = extract(text);
  if (stated === undefined || stated === "") return { outcome: "ungradable" };
  return { outcome: matches(stated, gold) ? "right" : "wrong", stated };
}

function taskFor(set: string, names: readonly string[]): LmEvalTask {
  const task = lmEvalTask(set, names);
  if (task === undefined) throw new Error(`lm-eval has no task for ${set}`);
  return task;
}
