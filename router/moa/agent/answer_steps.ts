import type { Prompt, Sampling } from "../../engines/engine.ts";

/** One step of an answer that is begun before its prompt is whole. */
export interface AnswerStep {
  /** The prompt as it is known by now, without what is written of the answer. */
  readonly prompt: Prompt;
  /** Of the whole answer, but for `max_tokens`: those of the answer when the step is done. */
  readonly sampling: Sampling;
  /** The prompt is whole: the answer is written to its end. */
  readonly isLast: boolean;
  /** Tokens of each precursor's answer in the prompt, by its id. */
  readonly reads: Readonly<Record<string, number>>;
}

/** Where an answer has come to. */
export interface AnswerSoFar {
  readonly tokens: number;
  /** The model would have ended it there. */
  readonly hasEnded: boolean;
}

/** The steps in which an answer is written while its prompt still grows. */
export interface AnswerSteps {
  /** The next step; waits until there is one, and throws what keeps the whole prompt from being made. */
  next(written: AnswerSoFar, signal: AbortSignal): Promise<AnswerStep>;
}
