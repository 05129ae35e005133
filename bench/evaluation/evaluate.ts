import { messageOf } from "../../base/errors.ts";
import { fnv1a } from "../../base/random.ts";
import type { EvalQuestion } from "../datasets/data_set.ts";
import type { EvalProtocol, SetQuestion } from "../protocols/protocol.ts";
import type { AskMode, EvalAnswer, EvalRecord, EvalSet, StatedOutcome } from "./eval_record.ts";
import type { RecordFile } from "./record_file.ts";

/** Options of `evaluate`. */
export interface EvaluateOptions {
  readonly sets: readonly EvalSet[];
  readonly modes: readonly string[];
  readonly protocol: EvalProtocol;
  readonly repeats: number;
  /** Questions at the same time. */
  readonly concurrency: number;
  readonly seed: string;
  readonly ask: AskMode;
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
 * alike; what the file has is not asked again. Rejects only when `signal` aborts.
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
      for (let turn = 0; turn < modes.length; turn++) {
        signal.throwIfAborted();
        const at = (turn + index) % modes.length;
        try {
          found[index]![at] = await recordOf(tasks[index]!, modes[at]!, options);
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

async function recordOf(
  { set, question, repeat }: {
    readonly set: string;
    readonly question: EvalQuestion;
    readonly repeat: number;
  },
  mode: string,
  { ask, file, protocol, seed, signal }: EvaluateOptions,
): Promise<EvalRecord> {
  const key = { set, question: question.id, mode, repeat };
  const known = file.find(key);
  if (known !== undefined) return known;
  // The same for all modes, another one for each repeat.
  const requestSeed = fnv1a(`${seed}\0${set}\0${question.id}\0${repeat}`) % 2 ** 31;
  const answer = await ask(mode, protocol.ask({ set, question }), { seed: requestSeed, signal });
  const record: EvalRecord = { ...key, ...await gradedAnswer(answer, protocol, { set, question }) };
  file.add(record);
  return record;
}

/** An answer as it is kept, with what the protocol reads in it. */
async function gradedAnswer(answer: EvalAnswer, protocol: EvalProtocol, question: SetQuestion) {
  const readings = Object.entries(await protocol.read(question, answer.text)).map((
    [name, { outcome, stated = null, unchecked = null, parts = null }],
  ): readonly [string, StatedOutcome] => [name, { outcome, stated, unchecked, parts }]);
  const { text, finish, ttftMs, latencyMs, promptTokens, completionTokens } = answer;
  return {
    ...readings[0]![1],
    readings: Object.fromEntries(readings),
    text,
    finish: finish ?? null,
    ttftMs: ttftMs ?? null,
    latencyMs,
    promptTokens,
    completionTokens,
  };
}
