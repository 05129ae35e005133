import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { fnv1a } from "../../base/random.ts";
import type { AnswerGrade } from "../grading/answer_grade.ts";
import type { SandboxSource } from "../grading/grade_program.ts";
import type { EvalProtocol, SetQuestion } from "../protocols/protocol.ts";
import type { AskMode, EvalRecord, EvalSet, StatedOutcome } from "./eval_record.ts";
import { askInMode, type ModeAnswer, type SamplingOptions } from "./modes/ask_in_mode.ts";
import { type EvalMode, turnOrder } from "./modes/eval_mode.ts";
import type { RecordFile } from "./record_file.ts";

/** Options of `evaluate`. */
export interface EvaluateOptions {
  readonly sets: readonly EvalSet[];
  readonly modes: readonly EvalMode[];
  readonly sampling: SamplingOptions;
  readonly clock: Clock;
  readonly protocol: EvalProtocol;
  readonly repeats: number;
  /** Questions at the same time. */
  readonly concurrency: number;
  readonly seed: string;
  readonly ask: AskMode;
  /** For answers that are programs. */
  readonly openSandbox?: SandboxSource | undefined;
  readonly file: RecordFile;
  readonly signal: AbortSignal;
  /** Called after each answer. */
  readonly onAnswer: (done: number, all: number) => void;
}

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
  const { sets, modes, repeats, concurrency, signal, onAnswer } = options;
  const tasks = sets.flatMap((set) =>
    set.questions.flatMap((question) =>
      Array.from({ length: repeats }, (_, repeat) => ({ set: set.name, question, repeat }))
    )
  );
  const found = tasks.map((): (EvalRecord | undefined)[] => []);
  const failures = new Map<string, number>();
  let [next, done] = [0, 0];
  const goOn = async () => {
    for (let index = next++; index < tasks.length; index = next++) {
      for (const at of turnOrder(modes, index)) {
        signal.throwIfAborted();
        try {
          const mode = modes[at]!;
          found[index]![at] = await recordOf(
            { ...tasks[index]!, mode, reference: found[index]![0] },
            options,
          );
        } catch (error) {
          signal.throwIfAborted();
          failures.set(messageOf(error), (failures.get(messageOf(error)) ?? 0) + 1);
        }
        onAnswer(++done, tasks.length * modes.length);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, tasks.length) }, goOn));
  return { records: found.flat().filter((record) => record !== undefined), failures };
}

/** A question to ask in one mode; `reference` is what the first mode said. */
interface EvalTask extends SetQuestion {
  readonly repeat: number;
  readonly mode: EvalMode;
  readonly reference: EvalRecord | undefined;
}

async function recordOf({ set, question, repeat, mode, reference }: EvalTask, options: EvaluateOptions) {
  const { ask, clock, file, openSandbox, protocol, sampling, seed: runSeed, signal } = options;
  const key = { set, question: question.id, mode: mode.name, repeat };
  const known = file.find(key);
  if (known !== undefined) return known;
  // The same for all modes, another one for each repeat.
  const seed = fnv1a(`${runSeed}\0${set}\0${question.id}\0${repeat}`) % 2 ** 31;
  const asked = protocol.ask({ set, question });
  const answer = await askInMode(mode, { question, asked, ask, seed, sampling, clock, signal, reference });
  const readings = await protocol.read({ set, question }, answer.text, openSandbox);
  const record: EvalRecord = { ...key, ...recordedAnswer(answer, readings) };
  file.add(record);
  return record;
}

/** An answer as it is kept, with what the protocol has read in it. */
function recordedAnswer(answer: ModeAnswer, graded: Readonly<Record<string, AnswerGrade>>) {
  const readings = Object.entries(graded).map((
    [name, { outcome, stated = null, unchecked = null, parts = null }],
  ): readonly [string, StatedOutcome] => [name, { outcome, stated, unchecked, parts }]);
  const { text, finish, ttftMs, latencyMs, promptTokens, completionTokens, drawn } = answer;
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
  };
}
