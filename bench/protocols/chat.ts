import { type EvalQuestion, optionLetter } from "../datasets/data_set.ts";
import { gradeAnswer } from "../grading/grade_answer.ts";
import type { EvalProtocol } from "./protocol.ts";

const MATHS = "Think step by step, and put your final answer within \\boxed{}.";
const CHOICE =
  "Answer the following multiple choice question. Think step by step before answering. The last line of your " +
  "response should be of the following format: 'Answer: LETTER' (without quotes).";
const EXACT =
  "Think step by step. The last line of your response should be of the following format: 'Answer: ' and then " +
  "your final answer alone (without quotes).";

/**
 * The user message of the protocol `chat`: the question, and an instruction that says how the answer is to be stated, so
 * that it can be graded. After those of simple-evals and MathArena.
 */
export function askedInChat({ question: text, options, optionsInText, grader }: EvalQuestion): string {
  const question = text.trim();
  if (grader === "choice") {
    const listed = optionsInText === true
      ? []
      : (options ?? []).map((option, index) => `${optionLetter(index)}) ${option}`);
    return [`${CHOICE}\n\n${question}`, ...listed.length === 0 ? [] : ["", ...listed]].join("\n");
  }
  if (grader === "number" || grader === "maths") return `${question}\n\n${MATHS}`;
  return grader === "exact" ? `${question}\n\n${EXACT}` : question;
}

/** The protocol `chat`: one message, and a reading that finds an answer in whatever form it is stated. */
export const CHAT_PROTOCOL: EvalProtocol = {
  name: "chat",
  task: ({ set }) => ({ name: set }),
  ask: ({ question }) => ({ messages: [{ role: "user", content: askedInChat(question) }] }),
  read: async ({ question }, text, openSandbox) => ({
    canopy: await gradeAnswer(question, text, openSandbox),
  }),
};
