import { Random } from "../../base/random.ts";
import type { AgentPlace } from "./graphs.ts";
import { type Lengths, tokensAt } from "./workloads/lengths.ts";
import type { BenchWorkload } from "./workloads/workload_file.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import { speechOf } from "../../simulator/text/tokenizer.ts";

/** One question, and how long every agent's answer to it is. */
export interface WorkloadQuestion {
  readonly text: string;
  /** Tokens that the agent at this place writes; the same in every graph. */
  readonly answerTokens: (place: AgentPlace) => number;
}

/** The lengths of one question, in tokens. */
export interface QuestionLengths {
  readonly tokens: number;
  /** Tokens that the agent at this place writes. */
  readonly answerTokens: (place: AgentPlace) => number;
}

/** The first `count` questions of a workload; a longer list begins with a shorter one. */
export function questionsOf(workload: BenchWorkload, count: number, seed: string): WorkloadQuestion[] {
  return Array.from({ length: count }, (_, index): WorkloadQuestion => {
    const lengths = questionLengths(workload, index, seed);
    return { text: questionWords(workload, index, seed), answerTokens: lengths.answerTokens };
  });
}

/** The random words of the question with this number. */
export function questionWords(workload: BenchWorkload, index: number, seed: string): string {
  const { tokens } = questionLengths(workload, index, seed);
  return randomText(new Random(`${seed}/${workload.name}/${index}`).stream("text"), tokens);
}

/** The lengths of the question with this number, without its text. */
export function questionLengths(workload: BenchWorkload, index: number, seed: string): QuestionLengths {
  const shared = Math.sqrt(workload.correlation.agents);
  const own = Math.sqrt(1 - workload.correlation.agents);
  const random = new Random(`${seed}/${workload.name}/${index}`);
  const hardness = random.stream("hardness").normal();
  return {
    tokens: tokensAt(workload.question, random.stream("length").normal()),
    answerTokens: (place) => {
      const alone = random.stream(`answer/${place.layer}/${place.index}`).normal();
      return tokensAt(answerLengths(workload, place), shared * hardness + own * alone);
    },
  };
}

/** Lengths of the answers of an agent: those of the first entry that fits it. */
export function answerLengths({ answers }: BenchWorkload, { model, layer }: AgentPlace): Lengths {
  const fits = answers.find(({ models, layers }) =>
    (models === undefined || models.some((size) => size === model)) &&
    (layers === undefined || layers.includes(layer + 1))
  );
  if (fits === undefined) throw new Error(`The workload has no lengths of ${model} in layer ${layer + 1}`);
  return fits;
}

/** Questions of random words whose answers have lengths that are equally likely from 1 to `maxTokens`. */
export function uniformQuestions(options: {
  readonly count: number;
  readonly questionTokens: number;
  /** Longest answer of an agent that reads no other. */
  readonly maxTokens: number;
  /** Exact length of the other agents' answers. */
  readonly outputTokens: number;
  readonly seed: string;
}): WorkloadQuestion[] {
  return Array.from({ length: options.count }, (_, index): WorkloadQuestion => {
    const random = new Random(`${options.seed}/uniform/${index}`);
    return {
      text: randomText(random.stream("text"), options.questionTokens),
      answerTokens: ({ layer, index }) =>
        layer > 0 ? options.outputTokens : 1 + random.stream(`answer/${index}`).int(options.maxTokens),
    };
  });
}

/** Random words, each one token. */
export function randomText(random: Random, tokens: number): string {
  const { wordIds, tokenizer } = speechOf(builtinTokenizer());
  return tokenizer.decode(Array.from({ length: tokens }, () => random.pick(wordIds)));
}
