import { type EvalQuestion, optionLetter } from "../../datasets/data_set.ts";
import { type AnswerFilter, choiceFilter, patternFilter } from "./answer_filters.ts";
import { BBH_DESCRIPTIONS, bbhFilter } from "./bbh_tasks.ts";
import { exactMatch, type MatchRules } from "./exact_match.ts";
import { MINERVA_EXAMPLES } from "./minerva_examples.ts";
import { cleanMinerva, minervaAnswer, sameMinervaMaths } from "./minerva_maths.ts";
import { betweenDollars, lastBoxed, sameMathsString } from "./string_maths.ts";

/** One filter of a task, with the name that lm-eval reports it by. */
export interface TaskFilter {
  readonly name: string;
  readonly extract: AnswerFilter;
  readonly matches: (stated: string, gold: string) => boolean;
}

/** A task of lm-eval's, for chat models: prompts, stops, limit and filters. */
export interface LmEvalTask {
  /** As lm-eval names it, and for tasks of one subject each with its name. */
  readonly task: (question: EvalQuestion) => string;
  readonly version: number;
  /** A system message. */
  readonly description?: ((question: EvalQuestion) => string) | undefined;
  /** Worked examples before each question, turn by turn, as prompts and answers. */
  readonly examples?: readonly (readonly [prompt: string, answer: string])[] | undefined;
  readonly prompt: (question: EvalQuestion) => string;
  readonly stop: readonly string[];
  /** Undefined where the task sets none. */
  readonly maxTokens?: number | undefined;
  readonly gold: (question: EvalQuestion) => string;
  /** The first one is the one that groups of tasks are summed up by. */
  readonly filters: (question: EvalQuestion) => readonly TaskFilter[];
  /** Where figures are not those of lm-eval's task, and why; a sentence. */
  readonly differs?: string | undefined;
}

const WORDS_BEFORE = ["The answer is ", "the answer is ", "The answer: ", "The final answer: "];
const MMLU_WORDS_BEFORE = ["The answer is ", "answer is ", "The answer: ", "The final answer: "];
const STOPS = ["</s>", "Q:", "<|im_end|>"];
const LETTER_RULES: MatchRules = { ignoreCase: true, ignorePunctuation: true };
const GSM8K_RULES: MatchRules = {
  removed: [/,/gu, /\$/gu, /[\s\S]*#### /gu, /\.(?=\n?$)/gu],
  ignoreCase: true,
};
const BBH_RULES: MatchRules = { removed: [/\.(?=\n?$)/gu, /,/gu, /\\/gu, /\n/gu, /"/gu], ignoreCase: true };

/** What stands between certain words and the end of their line, without its last character: so lm-eval has it. */
function behindWords(words: readonly string[]): RegExp {
  return new RegExp(words.map((one) => `(?<=${one})([^\\n]*)(?=[^\\n])`).join("|"), "gu");
}

function filtered(name: string, extract: AnswerFilter, rules: MatchRules): TaskFilter {
  return { name, extract, matches: (stated, gold) => exactMatch(stated, gold, rules) };
}

function lettered(options: readonly string[] = [], mark: (letter: string) => string): string[] {
  return options.map((option, index) => `${mark(optionLetter(index))} ${option}`);
}

const choiceText = (question: EvalQuestion) => `(${question.answer})`;
const strictChoice = (words: readonly string[]) =>
  filtered("strict-match", patternFilter(behindWords(words), "first"), LETTER_RULES);
const subjectOf = ({ subject = "general knowledge" }: EvalQuestion) => subject.replaceAll("_", " ");

const GSM8K_TASK: LmEvalTask = {
  task: () => "gsm8k_cot_zeroshot",
  version: 3,
  prompt: ({ question }) => `Q: ${question}\nA: Let's think step by step.`,
  stop: ["Q:", "</s>", "<|im_end|>"],
  gold: ({ answer }) => answer,
  filters: () => [
    filtered("flexible-extract", patternFilter(/(-?[$0-9.,]{2,})|(-?[0-9]+)/gu, "last"), GSM8K_RULES),
    filtered("strict-match", patternFilter(/The answer is (-?[0-9.,]+)[^\n]/gu, "first"), GSM8K_RULES),
  ],
};

const HENDRYCKS_MATH500_TASK: LmEvalTask = {
  task: () => "hendrycks_math500",
  version: 1,
  prompt: ({ question }) => `Problem: ${question}\nAnswer:`,
  stop: ["Problem:"],
  gold: ({ answer }) => answer,
  filters: () => [{ name: "none", extract: betweenDollars, matches: sameMathsString }],
};

const minervaPrompt = (problem: string) => `Problem:\n${problem}\n\nSolution:`;

const MINERVA_MATH500_TASK: LmEvalTask = {
  task: () => "minerva_math500",
  version: 3.1,
  examples: MINERVA_EXAMPLES.map(([problem, solution]) => [minervaPrompt(problem), solution]),
  prompt: ({ question }) => minervaPrompt(question),
  stop: ["Problem:"],
  gold: ({ answer }) => cleanMinerva(answer),
  filters: () => [{ name: "none", extract: minervaAnswer, matches: sameMinervaMaths }],
  differs:
    "lm-eval asks SymPy whether two formulas have the same value, and here Canopy's exact arithmetic says it; " +
    "lm-eval's second metric, math_verify, is not there: canopy is the nearest to it",
};

const AIME25_TASK: LmEvalTask = {
  task: () => "aime25",
  version: 0,
  prompt: ({ question }) => `Question: ${question}\nAnswer:`,
  stop: ["Question:", "</s>", "<|im_end|>", "<|eot_id|>"],
  maxTokens: 32_768,
  gold: ({ answer }) => answer,
  filters: () => [{
    name: "none",
    extract: (text) => lastBoxed(text) ?? betweenDollars(text),
    matches: sameMathsString,
  }],
};

const GPQA_TASK: LmEvalTask = {
  task: () => "gpqa_diamond_cot_zeroshot",
  version: 2.2,
  prompt: ({ question, options }) =>
    [
      `What is the correct answer to this question:${question}`,
      "Choices:",
      ...lettered(options, (letter) => `(${letter})`),
      "Let's think step by step: ",
    ].join("\n"),
  stop: ["</s>"],
  gold: choiceText,
  filters: ({ options = [] }) => [
    filtered("flexible-extract", choiceFilter(options), LETTER_RULES),
    filtered("strict-match", patternFilter(/(?<=The answer is )([^\n]*)(?=[^\n])/gu, "first"), LETTER_RULES),
  ],
  differs:
    "lm-eval draws the order of the options anew in each run, and here the seed and the question fix it",
};

const MMLU_TASK: LmEvalTask = {
  task: ({ subject = "" }) => `mmlu_flan_cot_zeroshot_${subject}`,
  version: 3,
  description: (question) =>
    `The following are multiple choice questions (with answers) about ${subjectOf(question)}.\n\n`,
  prompt: ({ question, options }) =>
    `Q: ${question.trim()}\n${
      lettered(options, (letter) => `(${letter})`).join(" ")
    }\nA: Let's think step by step.`,
  stop: STOPS,
  gold: choiceText,
  filters: ({ options = [] }) => [
    filtered("flexible-extract", choiceFilter(options), LETTER_RULES),
    strictChoice(MMLU_WORDS_BEFORE),
  ],
  differs: "lm-eval scores this task on the validation split, and these questions are of the test split",
};

const MMLU_GENERATIVE_TASK: LmEvalTask = {
  ...MMLU_TASK,
  task: ({ subject = "" }) => `mmlu_${subject}_generative`,
  prompt: ({ question, options }) =>
    [question.trim(), ...lettered(options, (letter) => `${letter}.`), "Answer:"].join("\n"),
  stop: ["</s>", "\n"],
  gold: ({ answer }) => answer,
  filters: () => [filtered("get_response", patternFilter(/^([^\n]*)/gu, "first"), LETTER_RULES)],
  differs: undefined,
};

const MMLU_PROX_LITE_TASK: LmEvalTask = {
  task: ({ subject = "" }) => `mmlu_prox_lite_en_${subject.replaceAll(" ", "_")}`,
  version: 0,
  description: ({ subject = "" }) =>
    `The following are multiple choice questions (with answers) about ${subject.replaceAll(" ", "_")}. ` +
    'Think step by step and then finish your answer with "the answer is (X)" where X is the correct letter choice.\n',
  prompt: ({ question, options }) =>
    [
      "Question:",
      question,
      "Options:",
      ...lettered(options, (letter) => `${letter}.`),
      "Answer: Let's think step by step.",
    ].join("\n"),
  stop: ["</s>", "Q:", "Question:", "<|im_end|>"],
  maxTokens: 2048,
  gold: ({ answer }) => answer,
  filters: () => [
    filtered("custom-extract", patternFilter(/answer is \(?([ABCDEFGHIJ])\)?/gu, "first"), LETTER_RULES),
  ],
  differs:
    "lm-eval puts five worked examples of the validation split before each question, and here there are none",
};

const BBH_TASK: LmEvalTask = {
  task: ({ subject = "" }) => `bbh_cot_zeroshot_${subject}`,
  version: 3,
  description: ({ subject = "" }) => `${BBH_DESCRIPTIONS[subject] ?? ""}\n\n`,
  prompt: ({ question }) => `Q: ${question}\nA: Let's think step by step.`,
  stop: STOPS,
  gold: ({ answer, grader }) => grader === "choice" ? `(${answer})` : answer,
  filters: ({ subject, question }) => [
    filtered("flexible-extract", bbhFilter(subject, question), BBH_RULES),
    filtered("strict-match", patternFilter(behindWords(WORDS_BEFORE), "first"), BBH_RULES),
  ],
};

const HMMT_TASK: LmEvalTask = {
  ...AIME25_TASK,
  task: () => "aime25",
  differs: "lm-eval has no task for HMMT: its aime25 is used, which compares formulas letter by letter",
};

const IFBENCH_TASK: LmEvalTask = {
  task: () => "ifeval",
  version: 4,
  prompt: ({ question }) => question,
  stop: [],
  maxTokens: 1280,
  gold: ({ answer }) => answer,
  filters: () => [],
  differs:
    "lm-eval has no task for IFBench: it is asked as its ifeval asks, and graded as in the protocol chat",
};

const HUMANEVAL_PLUS_TASK: LmEvalTask = {
  task: () => "humaneval_plus",
  version: 1,
  prompt: ({ question }) => question,
  stop: ["\nclass", "\ndef", "\n#", "\nif", "\nprint"],
  maxTokens: 1024,
  gold: ({ answer }) => answer,
  filters: () => [],
};

/** Tasks of lm-eval by the name of their data set: the first one is used unless another one is named. */
export const LM_EVAL_TASKS: Readonly<Record<string, Readonly<Record<string, LmEvalTask>>>> = {
  "gsm8k": { gsm8k_cot_zeroshot: GSM8K_TASK },
  "math500": { hendrycks_math500: HENDRYCKS_MATH500_TASK, minerva_math500: MINERVA_MATH500_TASK },
  "aime25": { aime25: AIME25_TASK },
  "hmmt25": { aime25: HMMT_TASK },
  "gpqa-diamond": { gpqa_diamond_cot_zeroshot: GPQA_TASK },
  "mmlu": { mmlu_flan_cot_zeroshot: MMLU_TASK, mmlu_generative: MMLU_GENERATIVE_TASK },
  "mmlu-prox-lite": { mmlu_prox_lite_en: MMLU_PROX_LITE_TASK },
  "ifbench": { ifeval: IFBENCH_TASK },
  "humanevalplus": { humaneval_plus: HUMANEVAL_PLUS_TASK },
  "bbh": { bbh_cot_zeroshot: BBH_TASK },
};
