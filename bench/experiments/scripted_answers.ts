import { Random } from "../../base/random.ts";
import type { AgentPlace } from "./graphs.ts";
import { questionLengths, questionWords } from "./workload.ts";
import type { BenchWorkload } from "./workloads/workload_file.ts";
import { SIZES } from "./world.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import { type ScriptedAnswer, type ScriptedAnswers, SKILL } from "../../simulator/text/scripted.ts";
import { speechOf } from "../../simulator/text/tokenizer.ts";

export type ModelSize = (typeof SIZES)[number];

/** A question whose answers are scripted: what each agent finds, how long it writes and how sure it is. */
export interface ScriptedExitQuestion {
  /** Drawn when it is first read. */
  readonly text: string;
  /** Tokens of its text. */
  readonly tokens: number;
  /** The right answer. */
  readonly right: string;
  /** Tokens that the agent at this place writes before it states its answer. */
  answerTokens(place: AgentPlace): number;
  /** More tokens than the agent at this place writes. */
  maxTokens(place: AgentPlace): number;
  /** Answer of the agent with this seed after it has read these answers of others. */
  answerOf(model: string, seed: number, read: readonly string[]): string;
  /** All that it writes. */
  textOf(model: string, seed: number, read: readonly string[]): string;
  /** All that a model writes that only writes up what these answers agree on: as much as a root. */
  writtenUp(read: readonly string[]): string;
}

/**
 * Relations between the answers to a question. These are assumptions: shares of right answers as those of the scripted
 * engines of the demonstration, by model size and by the question's difficulty.
 */
export const AGREEMENT = {
  /** Of the wrong answers those that are the question's most tempting one: on it wrong answers agree. */
  tempting: 0.5,
  /** Of the aggregators those that follow the majority of what they read. */
  follow: 0.9,
  /** Exponents on the probabilities of a right answer's tokens, and of a wrong one's. */
  doubt: { right: 0.7, wrong: 1.1 },
} as const;

/** Words of each question's own, and those that all share. */
const OWN_WORDS = 60;
const OWN_SHARE = 0.7;
/** No final sentence is longer. */
const CONCLUSION_TOKENS = 64;
/** In the prompt of a model that writes up. */
const WRITE_UP = "Write their solution up";
/** Answers that nobody else gives. */
const STRAY_ANSWERS = 900;

/** Tokens of the sentence that states an answer, with what stands before it. */
export const STATED_TOKENS = 12;

/** The questions of a workload, with answers; the lengths are the workload's. */
export function scriptedQuestions(
  workload: BenchWorkload,
  count: number,
  seed: string,
): ScriptedExitQuestion[] {
  const { wordIds } = speechOf(builtinTokenizer());
  return Array.from({ length: count }, (_, number): ScriptedExitQuestion => {
    const { tokens, answerTokens } = questionLengths(workload, number, seed);
    const random = new Random(`${seed}/${workload.name}/${number}/answers`);
    const difficulty = random.next();
    const right = `${1000 + random.int(9000)}`;
    const tempting = `${100 + random.int(900)}`;
    const own = Array.from({ length: OWN_WORDS }, () => random.pick(wordIds));
    const alone = (model: string, place: number): string => {
      const draw = random.stream(`${model}/${place}`);
      const { easy, loss } = SKILL[sizeOf(model)];
      if (draw.next() < easy - loss * difficulty) return right;
      return draw.next() < AGREEMENT.tempting ? tempting : `${10_000 + draw.int(STRAY_ANSWERS)}`;
    };
    const words = () => questionWords(workload, number, seed);
    return spokenQuestion({ number, words, tokens, right, answerTokens, alone }, own, random);
  });
}

/** A question and what agents find that read nobody. */
export interface QuestionScript extends Pick<ScriptedExitQuestion, "tokens" | "right" | "answerTokens"> {
  /** Its place in the list of questions. */
  readonly number: number;
  /** Its text, drawn. */
  readonly words: () => string;
  /** Answer of a model at the place with this seed. */
  alone(model: string, place: number): string;
}

/** A scripted question whose agents follow the majority of what they read, and speak random words, many of its own. */
export function spokenQuestion(
  { number, words, tokens, right, answerTokens, alone }: QuestionScript,
  own: readonly number[],
  random: Random,
): ScriptedExitQuestion {
  const { wordIds, tokenizer } = speechOf(builtinTokenizer());
  const answerOf = (model: string, place: number, read: readonly string[]): string => {
    const majority = majorityOf(read);
    const follows = random.stream(`follow/${place}`).next() < AGREEMENT.follow;
    return majority !== undefined && follows ? majority : alone(model, place);
  };
  const solution = (model: string, place: number, answer: string): string => {
    const draws = random.stream(`words/${place}`);
    const length = answerTokens({ layer: Math.floor(place / 100) - 1, index: place % 100, model });
    const ids = Array.from({ length }, () => draws.pick(draws.next() < OWN_SHARE ? own : wordIds));
    return `${tokenizer.decode(ids)}.\n\nThe answer is ${answer}.`;
  };
  let text: string | undefined;
  return {
    get text() {
      return text ??= `Question ${number}:${words()}`;
    },
    tokens,
    right,
    answerTokens,
    maxTokens: (place) => answerTokens(place) + CONCLUSION_TOKENS,
    answerOf,
    textOf: (model, place, read) => solution(model, place, answerOf(model, place, read)),
    writtenUp: (read) => solution("32b", 300, majorityOf(read) ?? ""),
  };
}

function sizeOf(model: string): ModelSize {
  const size = SIZES.find((one) => one === model);
  if (size === undefined) throw new Error(`Nothing is known of the answers of ${model}`);
  return size;
}

/** Answers of a model to these questions; agents are told apart by the seeds of their requests. */
export function scriptedExitAnswers(
  questions: readonly ScriptedExitQuestion[],
  model: string,
): ScriptedAnswers {
  const made = new Map<string, ScriptedAnswer>();
  const make = (question: ScriptedExitQuestion, seed: number, read: readonly string[]): ScriptedAnswer => {
    const right = question.answerOf(model, seed, read) === question.right;
    const { doubt } = AGREEMENT;
    return { text: question.textOf(model, seed, read), doubt: right ? doubt.right : doubt.wrong };
  };
  return {
    answer(prompt, seed) {
      const number = /Question (\d+):/.exec(prompt)?.[1];
      const question = number === undefined ? undefined : questions[Number(number)];
      if (question === undefined) return undefined;
      const read = statedAnswers(prompt);
      if (prompt.includes(WRITE_UP)) return { text: question.writtenUp(read), doubt: AGREEMENT.doubt.right };
      if (seed === undefined) return undefined;
      // Asked again for every warm.
      const key = `${number} ${seed} ${read.join()}`;
      let answer = made.get(key);
      if (answer === undefined) made.set(key, answer = make(question, seed, read));
      return answer;
    },
  };
}

/** The final answers that a text states, in their order. */
export function statedAnswers(text: string): string[] {
  return [...text.matchAll(/The answer is (\d+)\./g)].map((match) => match[1]!);
}

/** The answer that more have given than any other one; undefined when there is none. */
export function majorityOf(answers: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const answer of answers) counts.set(answer, (counts.get(answer) ?? 0) + 1);
  const [first, second] = [...counts].sort(([, a], [, b]) => b - a);
  return first !== undefined && first[1] > (second?.[1] ?? 0) ? first[0] : undefined;
}
