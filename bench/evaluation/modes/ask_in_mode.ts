import type { Clock } from "../../../base/clock.ts";
import { fnv1a } from "../../../base/random.ts";
import type { EvalQuestion } from "../../datasets/data_set.ts";
import type { AskedQuestion } from "../../protocols/protocol.ts";
import { sumOf } from "../../statistics/statistics.ts";
import { workOfAll } from "../answer_work.ts";
import type { AskMode, EvalAnswer, EvalRecord } from "../eval_record.ts";
import { likeliestAnswer, votedAnswer } from "./chosen_answer.ts";
import { drawAnswers, type DrawOptions } from "./draw_answers.ts";
import type { EvalMode } from "./eval_mode.ts";

/** How models that are asked several times are. */
export interface SamplingOptions {
  /** Of each answer, instead of the protocol's. */
  readonly temperature: number;
  /** Answers at the same time. */
  readonly width: number;
}

/** Options of `askInMode`. */
export interface AskInModeOptions {
  readonly question: EvalQuestion;
  readonly asked: AskedQuestion;
  readonly ask: AskMode;
  readonly seed: number;
  readonly sampling: SamplingOptions;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** What the first mode said to the same question; undefined before it has. */
  readonly reference: Pick<EvalRecord, "mode" | "completionTokens" | "latencyMs"> | undefined;
}

/** An answer, and the number of those that it was chosen from. */
export interface ModeAnswer extends EvalAnswer {
  readonly drawn: number;
}

/** Asks in a mode. Of several answers latency is that of all, and tokens are theirs together. Rejects without an answer. */
export async function askInMode(mode: EvalMode, options: AskInModeOptions): Promise<ModeAnswer> {
  const { question, asked, ask, seed, sampling, clock, signal } = options;
  if (mode.kind === "once") return { ...await ask(mode.model, asked, { seed, run: true, signal }), drawn: 1 };
  const startMs = clock.now();
  const answers = await drawAnswers({
    ask: (number, signal) =>
      ask(mode.model, { ...asked, temperature: sampling.temperature }, {
        seed: fnv1a(`${seed}\0${number}`) % 2 ** 31,
        logprobs: mode.kind === "best-of",
        signal,
      }),
    budget: budgetOf(mode, options),
    width: sampling.width,
    clock,
    signal,
  });
  const latencyMs = clock.now() - startMs;
  const chosen = mode.kind === "best-of" ? likeliestAnswer(answers) : await votedAnswer(question, answers);
  return {
    ...chosen,
    // Which one it is, is known only at the end: the text comes all at once.
    ttftMs: latencyMs,
    answerTokens: undefined,
    gaps: undefined,
    latencyMs,
    promptTokens: sumOf(answers.map(({ promptTokens }) => promptTokens)),
    completionTokens: sumOf(answers.map(({ completionTokens }) => completionTokens)),
    work: workOfAll(answers.map(({ work }) => work)),
    drawn: answers.length,
  };
}

function budgetOf(
  mode: Exclude<EvalMode, { kind: "once" }>,
  { reference }: AskInModeOptions,
): DrawOptions["budget"] {
  if (mode.kind === "best-of") return { answers: mode.answers };
  if (typeof mode.budget !== "string") return mode.budget;
  if (reference === undefined) {
    throw new Error(`${mode.name} needs an answer of the first mode, and it has none`);
  }
  return mode.budget === "tokens" ? { tokens: reference.completionTokens } : { timeMs: reference.latencyMs };
}
