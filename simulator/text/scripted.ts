import { Random } from "../../base/random.ts";
import { QUESTIONS, type ScriptedQuestion } from "./questions.ts";

/** An answer that a scripted engine gives. */
export interface ScriptedAnswer {
  readonly text: string;
  /** Exponent on the token probabilities: below 1 where the model is sure. */
  readonly doubt: number;
}

/** Answers the known questions. */
export interface ScriptedAnswers {
  /** Answer to this prompt; undefined when no known question is in it. */
  answer(
    prompt: string,
    seed: number | undefined,
    temperature: number | undefined,
  ): ScriptedAnswer | undefined;
}

const FLAT_QUESTIONS = QUESTIONS.map((question) => flat(question.question));

/** Share of right answers of a model of that size: to an easy question, and the loss by difficulty. */
export const SKILL = {
  "4b": { easy: 0.95, loss: 0.75, extraSteps: 1 },
  "8b": { easy: 0.97, loss: 0.6, extraSteps: 2 },
  "32b": { easy: 0.99, loss: 0.35, extraSteps: 4 },
  "instant": { easy: 0.97, loss: 0.6, extraSteps: 1 },
} as const;

const OPENINGS = [
  "Let us work through this step by step.",
  "First we collect what is given, then we calculate.",
  "We can solve this in a few short steps.",
  "Let me think about what is asked.",
];
const LINKS = ["", "", "Then: ", "Next: ", "Now: ", "So: "];
const CHECKS = [
  "Let us check this: going through the steps again gives the same result.",
  "A quick test with the numbers of the question supports this.",
  "Looking at it from the other side leads to the same conclusion.",
  "No other reading of the question seems likely.",
  "The size of the result is plausible as well.",
  "Each step used only what is given in the question.",
];
const READINGS = [
  "I have compared the responses.",
  "The responses are reviewed one by one.",
  "Several solutions are given; let us see where they agree.",
];

/**
 * Answers with worked solutions. Whether they are right, and how long they are, is drawn from the engine's seed, the
 * question, the model size and the request's seed. A prompt that quotes answers gets an answer that follows their
 * majority. Requests that sample without a seed differ from each other, in the order in which they come.
 */
export function scriptedAnswers(
  options: { size: "4b" | "8b" | "32b" | "instant"; seed: string },
): ScriptedAnswers {
  const asked = new Map<string, number>();
  return {
    answer(prompt, seed, temperature) {
      const question = questionIn(prompt);
      if (question === undefined) return undefined;
      const begun = begunAnswer(prompt);
      const votes = votesIn(prompt.slice(0, prompt.length - begun.length), question);
      if (begun !== "") return continuation(question, options, seed, votes, begun);
      let variant = seed === undefined ? "" : `seed ${seed}`;
      if (seed === undefined && temperature !== 0) {
        const nth = asked.get(question.id) ?? 0;
        asked.set(question.id, (nth + 1) % VARIANTS);
        variant = `${nth}`;
      }
      return compose(question, options, variant, votes);
    },
  };
}

/** Samples without a seed repeat after so many; a cut answer can be continued while it is one of them. */
const VARIANTS = 64;

/** The known question in a text, if any. */
export function questionIn(text: string): ScriptedQuestion | undefined {
  const plain = flat(text);
  return QUESTIONS.find((_, index) => plain.includes(FLAT_QUESTIONS[index]!));
}

/** The answer that a solution states, if it is one of the question's. */
export function statedAnswer(text: string, question: ScriptedQuestion): string | undefined {
  const votes = votesIn(text, question);
  return votes[votes.length - 1];
}

function compose(
  question: ScriptedQuestion,
  options: { size: "4b" | "8b" | "32b" | "instant"; seed: string },
  variant: string,
  votes: readonly string[],
): ScriptedAnswer {
  const random = new Random(`${options.seed}/${options.size}/${question.id}/${variant}/${votes.join(",")}`);
  const skill = SKILL[options.size];
  const knows = random.next() < skill.easy - skill.loss * question.difficulty;
  const own = knows
    ? question.answer
    : question.mistakes[random.next() < 0.75 ? 0 : question.mistakes.length - 1] ?? question.answer;
  const answer = votes.length > 0 ? majority(votes, own) : own;
  const lines: string[] = [];
  if (votes.length > 0) {
    const agreeing = votes.filter((vote) => vote === answer).length;
    lines.push(random.pick(READINGS));
    lines.push(`Of the ${votes.length} responses, ${agreeing} come to ${answer}.`);
  } else lines.push(random.pick(OPENINGS));
  const mistake = question.mistakes.indexOf(answer);
  const steps = mistake < 0
    ? question.steps
    : [question.steps[0]!, question.slips[mistake] ?? question.slips[0]!];
  for (const step of steps) lines.push(random.pick(LINKS) + step);
  const extra = random.int(skill.extraSteps + (votes.length > 0 ? 2 : 1));
  for (let i = 0; i < extra; i++) lines.push(CHECKS[(random.int(CHECKS.length) + i) % CHECKS.length]!);
  lines.push(`The answer is ${answer}.`);
  const agreement = votes.length > 0 ? votes.filter((vote) => vote === answer).length / votes.length : 0.5;
  return { text: lines.join("\n"), doubt: (answer === question.answer ? 0.6 : 1) * (1.25 - 0.5 * agreement) };
}

/** Goes on with an answer that was cut: the one of all variants that begins so. */
function continuation(
  question: ScriptedQuestion,
  options: { size: "4b" | "8b" | "32b" | "instant"; seed: string },
  seed: number | undefined,
  votes: readonly string[],
  begun: string,
): ScriptedAnswer | undefined {
  for (let nth = seed === undefined ? -1 : VARIANTS; nth <= VARIANTS; nth++) {
    const variant = nth < 0 ? "" : nth === VARIANTS ? `seed ${seed}` : `${nth}`;
    const answer = compose(question, options, variant, votes);
    if (answer.text.startsWith(begun)) return { ...answer, text: answer.text.slice(begun.length) };
  }
  return undefined;
}

function majority(votes: readonly string[], own: string): string {
  const counts = new Map<string, number>();
  for (const vote of votes) counts.set(vote, (counts.get(vote) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const leaders = [...counts].filter(([, count]) => count === most).map(([vote]) => vote);
  return leaders.includes(own) ? own : leaders[0] ?? own;
}

/** The answers that the text quotes, as far as they are among the question's. */
function votesIn(text: string, question: ScriptedQuestion): string[] {
  const known = [question.answer, ...question.mistakes];
  const votes: string[] = [];
  for (const match of text.matchAll(/the answer is ([^\n]+?)\.(?=\s|$|<)/gi)) {
    if (known.includes(match[1]!)) votes.push(match[1]!);
  }
  return votes;
}

/** The part of an answer that stands already at the end of the prompt. */
function begunAnswer(prompt: string): string {
  const header = "<|im_start|>assistant\n";
  const at = prompt.lastIndexOf(header);
  if (at < 0) return "";
  const tail = prompt.slice(at + header.length).replace(/^<think>\n\n<\/think>\n\n/, "");
  return tail.includes("<|im_end|>") ? "" : tail;
}

function flat(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
