import type { EvalQuestion } from "../datasets/data_set.ts";
import type { AnswerGrade } from "../grading/answer_grade.ts";
import type { SandboxSource } from "../grading/grade_program.ts";

/** Way to ask questions and to read answers; its name is part of every figure. */
export type ProtocolName = "chat" | "lm-eval";

/** A question as it is sent. */
export interface AskedQuestion {
  readonly messages: readonly { readonly role: "system" | "user" | "assistant"; readonly content: string }[];
  /** Strings that end the answer. */
  readonly stop?: readonly string[] | undefined;
  /** Longest answer, in tokens. */
  readonly maxTokens?: number | undefined;
  readonly temperature?: number | undefined;
}

/** A question, and the name of its set. */
export interface SetQuestion {
  readonly set: string;
  readonly question: EvalQuestion;
}

/** Prompts of a protocol, and its reading of answers. */
export interface EvalProtocol {
  readonly name: ProtocolName;
  /** Name by which the question's figures are filed. */
  task(question: SetQuestion): { readonly name: string };
  ask(question: SetQuestion): AskedQuestion;
  /** What each filter makes of a text, by the filter's name; the first one decides whether the answer is right. */
  read(
    question: SetQuestion,
    text: string,
    openSandbox?: SandboxSource,
  ): Promise<Readonly<Record<string, AnswerGrade>>>;
}
