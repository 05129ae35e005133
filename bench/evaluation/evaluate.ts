import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { fnv1a } from "../../base/random.ts";
import type { AnswerGrade } from "../grading/answer_grade.ts";
import { askAll, type QuestionArrivals } from "../experiments/workloads/question_arrivals.ts";
import type { SandboxSource } from "../grading/grade_program.ts";
import type { EvalProtocol, SetQuestion } from "../protocols/protocol.ts";
import type { AskMode, EvalRecord, EvalSet, StatedOutcome } from "./eval_record.ts";
import { askInMode, type ModeAnswer, type SamplingOptions } from "./modes/ask_in_mode.ts";
import { type EvalMode, turnOrder } from "./modes/eval_mode.ts";
import type { RecordKey } from "./read_records.ts";
import type { RecordFile } from "./record_file.ts";

/** Options of `evaluate`. */
export interface EvaluateOptions {
  readonly sets: readonly EvalSet[];
  readonly modes: readonly EvalMode[];
  readonly sampling: SamplingOptions;
  readonly clock: Clock;
  readonly protocol: EvalProtocol;
  readonly repeats: number;
  /** Of questions, each with all its modes. */
  readonly arrivals: QuestionArrivals;
  /** Of arrivals at random; the parts of one evaluation need several. */
  readonly arrivalSeed: string;
  /** The first so many questions are asked before all others, and not counted. */
  readonly warmUp: number;
  readonly seed: string;
  readonly ask: AskMode;
  /** Gives each answer a place of its own, with a clock of its own; without it all are asked in one. */
  readonly alone?: AskAlone | undefined;
  /** For answers that are programs. */
  readonly openSandbox?: SandboxSource | undefined;
  readonly file: RecordFile;
  readonly signal: AbortSignal;
  /** Called after each answer; `known`: the file had it. */
  readonly onAnswer: (done: number, all: number, known: boolean) => void;
}

/** Where a model or graph is asked. */
export interface AskPlace {
  readonly ask: AskMode;
  readonly clock: Clock;
}

/** Makes a place in which only `mode` is asked; its time runs until `use` ends. */
export type AskAlone = <T>(mode: EvalMode, use: (place: AskPlace) => Promise<T>) => Promise<T>;

/** Result of `evaluate`. */
export interface Evaluation {
  /** In the order of sets, questions, repeats and modes. */
  readonly records: readonly EvalRecord[];
  /** Requests without an answer, by their error; they are asked again when the file is gone on with. */
  readonly failures: ReadonlyMap<string, number>;
}

/**
 * Asks each question in all modes before the next one, the first of them in turn, so that a server's moods hit all modes
 * alike; a mode with the first one's budget comes behind it. What the file has is not asked again. Rejects only when `signal` aborts.
 */
export async function evaluate(options: EvaluateOptions): Promise<Evaluation> {
  const { modes, arrivals, arrivalSeed, clock, file, signal, onAnswer } = options;
  const asked = askedQuestions(options);
  const found = asked.map((): (EvalRecord | undefined)[] => []);
  const failures = new Map<string, number>();
  let done = 0;
  const ask = async (index: number, waitedMs: number) => {
    for (const at of turnOrder(modes, index)) {
      signal.throwIfAborted();
      const task = { ...asked[index]!, waitedMs, mode: modes[at]!, reference: found[index]![0] };
      const known = file.find(keyOf(task)) !== undefined;
      try {
        found[index]![at] = await recordOf(task, options);
      } catch (error) {
        signal.throwIfAborted();
        failures.set(messageOf(error), (failures.get(messageOf(error)) ?? 0) + 1);
      }
      onAnswer(++done, asked.length * modes.length, known);
    }
  };
  const isKnown = (index: number) =>
    modes.every((mode) => file.find(keyOf({ ...asked[index]!, mode })) !== undefined);
  for (const isWarmUp of [true, false]) {
    const part = [...asked.keys()].filter((index) => asked[index]!.isWarmUp === isWarmUp);
    // What is known does not arrive again.
    for (const index of part.filter(isKnown)) await ask(index, 0);
    const open = part.filter((index) => found[index]!.length === 0);
    const seed = isWarmUp ? `${arrivalSeed}/warm-up` : arrivalSeed;
    await askAll(
      { count: open.length, arrivals, seed, clock, signal },
      (at, waitedMs) => ask(open[at]!, waitedMs),
    );
  }
  return { records: found.flat().filter((record) => record !== undefined), failures };
}

/** A question as often as it is asked. */
interface RepeatedQuestion extends SetQuestion {
  readonly repeat: number;
  readonly isWarmUp: boolean;
}

function askedQuestions({ sets, repeats, warmUp }: EvaluateOptions): RepeatedQuestion[] {
  return sets.flatMap(({ name, questions }) => questions.map((question) => ({ set: name, question })))
    .flatMap((one, number) =>
      Array.from({ length: repeats }, (_, repeat) => ({ ...one, repeat, isWarmUp: number < warmUp }))
    );
}

/** A question to ask in one mode. */
interface EvalTask extends RepeatedQuestion {
  readonly mode: EvalMode;
  /** What the first mode said. */
  readonly reference: EvalRecord | undefined;
  readonly waitedMs: number;
}

function keyOf(
  { set, question, mode, repeat }: Pick<EvalTask, "set" | "question" | "mode" | "repeat">,
): RecordKey {
  return { set, question: question.id, mode: mode.name, repeat };
}

async function recordOf(task: EvalTask, options: EvaluateOptions): Promise<EvalRecord> {
  const { set, question, repeat, mode, reference, isWarmUp, waitedMs } = task;
  const { alone, file, openSandbox, protocol, sampling, seed: runSeed, signal } = options;
  const key = keyOf(task);
  const known = file.find(key);
  if (known !== undefined) return known;
  // The same for all modes, another one for each repeat.
  const seed = fnv1a(`${runSeed}\0${set}\0${question.id}\0${repeat}`) % 2 ** 31;
  const asked = protocol.ask({ set, question });
  const askIn = ({ ask, clock }: AskPlace) =>
    askInMode(mode, { question, asked, ask, seed, sampling, clock, signal, reference });
  const answer = await (alone === undefined ? askIn(options) : alone(mode, askIn));
  const readings = await protocol.read({ set, question }, answer.text, openSandbox);
  const record: EvalRecord = {
    ...key,
    ...recordedAnswer(answer, readings),
    ...isWarmUp ? { warmUp: true } : {},
    ...waitedMs > 0 ? { waitedMs } : {},
  };
  return file.add(record);
}

/** An answer as it is kept, with what the protocol has read in it. */
function recordedAnswer(answer: ModeAnswer, graded: Readonly<Record<string, AnswerGrade>>) {
  const readings = Object.entries(graded).map((
    [name, { outcome, stated = null, unchecked = null, parts = null }],
  ): readonly [string, StatedOutcome] => [name, { outcome, stated, unchecked, parts }]);
  const { text, finish, ttftMs, latencyMs, promptTokens, completionTokens, drawn } = answer;
  const { answerTokens, gaps, work, run } = answer;
  return {
    ...readings[0]![1],
    readings: Object.fromEntries(readings),
    text,
    finish: finish ?? null,
    ttftMs: ttftMs ?? null,
    latencyMs,
    promptTokens,
    completionTokens,
    drawn,
    ...answerTokens === undefined ? {} : { answerTokens },
    ...gaps === undefined ? {} : { gaps },
    ...work === undefined ? {} : { work },
    ...run === undefined ? {} : { run },
  };
}
