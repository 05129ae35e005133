import type { AnswerForm } from "./answer_form.ts";
import type { AnswerKind } from "../../cfgs/schema/early_exit.ts";

/** The final answer that was found in a text. */
export interface FinalAnswer {
  readonly kind: AnswerKind;
  /** As it stands in the text, shortened. */
  readonly text: string;
  /** Normal form for readers of a trace. */
  readonly value: string;
  /** What equality is decided by (`equalAnswers`). */
  readonly form: AnswerForm;
}

/** A final answer before its kind is noted. */
export type FoundAnswer = Omit<FinalAnswer, "kind">;

/** An answer that is compared letter by letter. */
export function textAnswer(text: string, value: string): FoundAnswer {
  return { text, value, form: { kind: "text", text: value } };
}

/** Longest final answer, in characters; what is longer is no final answer. */
export const MAX_ANSWER_LENGTH = 300;

/** Characters of a text in which final answers are looked for, from its end. */
const SEARCHED_LENGTH = 16_384;

/** The part of a text in which its final answer stands: its end, without reasoning, in Unicode's compatible form. */
export function finalPart(text: string): string {
  const tail = text.slice(-SEARCHED_LENGTH);
  const reasoningEnd = tail.lastIndexOf("</think>");
  return (reasoningEnd < 0 ? tail : tail.slice(reasoningEnd + "</think>".length))
    .replaceAll(/[\u2212\u2013\uff0d]/g, "-")
    .replaceAll(/[\u200b-\u200f\u2060\ufeff]/g, "")
    .replaceAll(/[\uff01-\uff5e]/g, (char) => String.fromCharCode(char.charCodeAt(0) - 0xfee0))
    .replaceAll(/[\u00a0\u2007\u2009\u202f]/g, " ");
}
