import type { EvalQuestion } from "../datasets/data_set.ts";
import type { AnswerGrade } from "../grading/answer_grade.ts";

/** Answer of a model or graph to a question; times in ms, tokens of all agents. */
export interface EvalRecord {
  readonly set: string;
  readonly question: string;
  readonly mode: string;
  /** From 0. */
  readonly repeat: number;
  readonly outcome: AnswerGrade["outcome"];
  /** Null where the text states none. */
  readonly stated: string | null;
  readonly text: string;
  readonly ttftMs: number | null;
  readonly latencyMs: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Result of asking once; times in ms. */
export interface EvalAnswer {
  readonly text: string;
  readonly ttftMs: number | undefined;
  readonly latencyMs: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Asks a mode; rejects where no answer came. */
export type AskMode = (
  mode: string,
  prompt: string,
  options: { readonly seed: number; readonly signal: AbortSignal },
) => Promise<EvalAnswer>;

/** A set as it is asked. */
export interface EvalSet {
  readonly name: string;
  readonly questions: readonly EvalQuestion[];
}
