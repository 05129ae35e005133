import { Random } from "../../base/random.ts";
import type { AgentPlace } from "./graphs.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import { speechOf } from "../../simulator/text/tokenizer.ts";

/** One question, and how long every agent's answer to it is. */
export interface WorkloadQuestion {
  readonly text: string;
  /** Tokens that the agent at this place writes; the same in every graph. */
  readonly answerTokens: (place: AgentPlace) => number;
}

/** Lengths in tokens: log-normal around a median. */
interface LengthShape {
  readonly median: number;
  /** Standard deviation of the logarithm. */
  readonly sigma: number;
}

/** Shape of a workload's questions and answers; assumed, not measured on a data set. */
export interface WorkloadShape {
  readonly summary: string;
  readonly question: LengthShape;
  /** `sigma`: between the questions (hard ones are answered at length by all agents). */
  readonly answer: LengthShape;
  /** Standard deviation of the logarithm between the agents that answer one question. */
  readonly agentSigma: number;
}

/** The workloads by name. */
export const WORKLOADS = {
  chat: {
    summary: "short questions, answers of some 300 tokens",
    question: { median: 80, sigma: 0.8 },
    answer: { median: 300, sigma: 0.4 },
    agentSigma: 0.25,
  },
  maths: {
    summary: "short questions, worked solutions of some 900 tokens",
    question: { median: 120, sigma: 0.4 },
    answer: { median: 900, sigma: 0.5 },
    agentSigma: 0.3,
  },
  documents: {
    summary: "questions on texts of some 4,000 tokens, answers of some 350",
    question: { median: 4000, sigma: 0.5 },
    answer: { median: 350, sigma: 0.3 },
    agentSigma: 0.3,
  },
} as const satisfies Readonly<Record<string, WorkloadShape>>;

export type WorkloadName = keyof typeof WORKLOADS;

/** The names of the workloads. */
export const WORKLOAD_NAMES: readonly WorkloadName[] = ["chat", "maths", "documents"];

const MIN_TOKENS = 8;
const MAX_ANSWER_TOKENS = 8192;
const MAX_QUESTION_TOKENS = 32_768;

/** The first `count` questions of a workload; a longer list begins with a shorter one. */
export function questionsOf(name: WorkloadName, count: number, seed: string): WorkloadQuestion[] {
  const shape: WorkloadShape = WORKLOADS[name];
  return Array.from({ length: count }, (_, index): WorkloadQuestion => {
    const random = new Random(`${seed}/${name}/${index}`);
    const hardness = random.stream("hardness").normal();
    return {
      text: randomText(
        random.stream("text"),
        logNormal(shape.question, random.stream("length").normal(), MAX_QUESTION_TOKENS),
      ),
      answerTokens: ({ layer, index }) => {
        const own = random.stream(`answer/${layer}/${index}`).normal();
        const median = shape.answer.median * Math.exp(shape.answer.sigma * hardness);
        return logNormal({ median, sigma: shape.agentSigma }, own, MAX_ANSWER_TOKENS);
      },
    };
  });
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

function logNormal({ median, sigma }: LengthShape, normal: number, max: number): number {
  return Math.max(MIN_TOKENS, Math.min(max, Math.round(median * Math.exp(sigma * normal))));
}

/** Random words, each one token. */
export function randomText(random: Random, tokens: number): string {
  const { wordIds, tokenizer } = speechOf(builtinTokenizer());
  return tokenizer.decode(Array.from({ length: tokens }, () => random.pick(wordIds)));
}
