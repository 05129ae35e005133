import type { EvalQuestion } from "../datasets/data_set.ts";
import type { AnswerGrade, GradedParts } from "../grading/answer_grade.ts";
import type { AskedQuestion } from "../protocols/protocol.ts";
import type { KeptDurations } from "../statistics/histogram.ts";
import type { AnswerRun } from "./answer_run.ts";
import type { AnswerWork } from "./answer_work.ts";

/** Outcome by one filter; `stated` is null where the text states nothing. */
export interface StatedOutcome {
  readonly outcome: AnswerGrade["outcome"];
  readonly stated: string | null;
  /** As of `AnswerGrade`; null where it has none. */
  readonly unchecked: string | null;
  readonly parts: GradedParts | null;
}

/** Answer of a model or graph to a question; times in ms, tokens of all agents. */
export interface EvalRecord extends StatedOutcome {
  readonly set: string;
  readonly question: string;
  readonly mode: string;
  /** From 0. */
  readonly repeat: number;
  /** What each filter of the protocol makes of the text; the outcome of the record is the first one's. */
  readonly readings: Readonly<Record<string, StatedOutcome>>;
  readonly text: string;
  /** The server's reason why the answer ended, such as `stop`, or `length` where it was cut; null where it gave none. */
  readonly finish: string | null;
  readonly ttftMs: number | null;
  /** Until the answer's last word. */
  readonly latencyMs: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Tokens of the text itself, without those of agents before it; absent where several answers were drawn. */
  readonly answerTokens?: number | undefined;
  /** Times between two pieces of its text, in ms; absent where it came in one piece, or was chosen from several. */
  readonly gaps?: KeptDurations | undefined;
  /** Answers that this one was chosen from, itself included. */
  readonly drawn: number;
  /** Of all answers drawn; absent where it was not told. */
  readonly work?: AnswerWork | undefined;
  /** Of a graph's answer; absent where the server keeps no record of runs, or does not show it. */
  readonly run?: AnswerRun | undefined;
  /** Of an answer of the warm-up, which is in no figure. */
  readonly warmUp?: true | undefined;
  /** How long its question was held back since others were under way; no part of the latency. Absent where it was not. */
  readonly waitedMs?: number | undefined;
}

/** Result of asking once; times in ms. */
export interface EvalAnswer {
  readonly text: string;
  readonly finish?: string | undefined;
  /** Of its tokens; undefined where it was not asked for, or is not given. */
  readonly meanLogprob?: number | undefined;
  readonly ttftMs: number | undefined;
  readonly latencyMs: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly answerTokens?: number | undefined;
  readonly gaps?: KeptDurations | undefined;
  readonly work?: AnswerWork | undefined;
  readonly run?: AnswerRun | undefined;
}

/** Asks a model or graph; rejects where no answer came. */
export type AskMode = (
  model: string,
  question: AskedQuestion,
  options: {
    readonly seed: number;
    readonly signal: AbortSignal;
    /** Whether `meanLogprob` is wanted; not by default. */
    readonly logprobs?: boolean | undefined;
    /** Whether `run` is wanted, where a graph answers; not by default. */
    readonly run?: boolean | undefined;
  },
) => Promise<EvalAnswer>;

/** A set as it is asked. */
export interface EvalSet {
  readonly name: string;
  readonly questions: readonly EvalQuestion[];
}
