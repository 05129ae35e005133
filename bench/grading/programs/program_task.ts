import type { EvalQuestion } from "../../datasets/data_set.ts";

/** What a program must do: a task of HumanEval+. */
export interface ProgramTask {
  readonly prompt: string;
  /** Function that is called. */
  readonly entry: string;
  /** Program that is right by definition. */
  readonly solution: string;
  /** How far numbers may be from the right ones. */
  readonly tolerance: number;
  /** Row of EvalPlus's release as it is written: its numbers are more than JavaScript can read. */
  readonly line: string | null;
  /** Test in the Hub's form, from which the inputs are taken. */
  readonly test: string | null;
}

/** The task of a question as the data set's reader has put it down. */
export function programTask({ question, extra = {} }: Pick<EvalQuestion, "question" | "extra">): ProgramTask {
  const { entryPoint, solution, tolerance, line, test } = extra;
  return {
    prompt: question,
    entry: String(entryPoint),
    solution: question + String(solution),
    tolerance: Number(tolerance),
    line: typeof line === "string" ? line : null,
    test: typeof test === "string" ? test : null,
  };
}
