import { Random } from "../../../base/random.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { speechOf } from "../../../simulator/text/tokenizer.ts";
import { type ScriptedExitQuestion, spokenQuestion, STATED_TOKENS } from "../scripted_answers.ts";
import { randomText } from "../workload.ts";

/** A model's answer to a question, as it was recorded. */
export interface RecordedAnswer {
  readonly question: string;
  readonly model: string;
  readonly right: boolean;
  /** Undefined where its text states nothing that can be read. */
  readonly stated: string | undefined;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** The answers to one question, by model: as many of each. */
export type RecordedQuestion = ReadonlyMap<string, readonly RecordedAnswer[]>;

/** Questions to which every model has given the same number of answers. */
export interface RecordedQuestions {
  readonly questions: readonly RecordedQuestion[];
  /** Answers of each model to each of them. */
  readonly repeats: number;
  /** Questions that some model has answered less often. */
  readonly left: number;
}

/** The questions that all of the models have answered as often as any was. */
export function recordedQuestions(
  answers: readonly RecordedAnswer[],
  models: readonly string[],
): RecordedQuestions {
  const asked = [...Map.groupBy(answers, ({ question }) => question).values()]
    .map((group) => Map.groupBy(group, ({ model }) => model));
  const counts = (question: RecordedQuestion) => models.map((model) => question.get(model)?.length ?? 0);
  const repeats = Math.max(0, ...asked.map((question) => Math.max(...counts(question))));
  const questions = asked.filter((question) => counts(question).every((count) => count === repeats));
  return { questions, repeats, left: asked.length - questions.length };
}

/** Numbers that stand for wrong answers, and for texts that state none. */
const FIRST_WRONG = 20_000;
const FIRST_UNSTATED = 90_000;
const RIGHT = "10000";

/**
 * Recorded questions as they are costed and played. Agents that read nobody give one recorded answer of their model
 * each; later ones follow the majority of what they read, as scripted ones do, else give one of their model's. All
 * write as much as was recorded; words are random.
 */
export function spokenRecords(questions: readonly RecordedQuestion[], seed: string): ScriptedExitQuestion[] {
  const { wordIds } = speechOf(builtinTokenizer());
  return questions.map((answers, number) => {
    const all = [...answers.values()].flat();
    const random = new Random(`${seed}/recorded/${all[0]?.question}`);
    const wrong = [...new Set(all.flatMap(({ right, stated }) => right ? [] : stated ?? []))];
    const said = new Map(all.map((answer, at) => [
      answer,
      answer.right
        ? RIGHT
        : `${answer.stated === undefined ? FIRST_UNSTATED + at : FIRST_WRONG + wrong.indexOf(answer.stated)}`,
    ]));
    const drawn = (model: string, layer: number, index: number): RecordedAnswer => {
      const own = answers.get(model) ?? [];
      if (layer > 0) return random.stream(`later/${layer}/${index}/${model}`).pick(own);
      // No two agents of the first layer give the same one.
      const first = random.stream(`first/${model}`).int(own.length);
      return own[(first + index) % own.length]!;
    };
    return spokenQuestion(
      {
        number,
        words: () => randomText(random.stream("text"), all[0]?.promptTokens ?? 1),
        tokens: all[0]?.promptTokens ?? 1,
        right: RIGHT,
        answerTokens: ({ layer, index, model = "" }) =>
          Math.max(1, drawn(model, layer, index).completionTokens - STATED_TOKENS),
        alone: (model, place) => said.get(drawn(model, Math.floor(place / 100) - 1, place % 100)) ?? "",
      },
      wordIds,
      random,
    );
  });
}
