import { fnv1a } from "../../base/random.ts";
import { CanopyError } from "../../base/errors.ts";
import type { EvalQuestion } from "./data_set.ts";

/** A part of a data set. */
export interface PickOptions {
  /** Questions at most; all by default. */
  readonly samples?: number | undefined;
  readonly seed: string;
  /** Only these, in this order. */
  readonly ids?: readonly string[] | undefined;
}

/**
 * A part of the questions in an order that the seed fixes, whatever their order in the file: each subject has its share
 * of every beginning, and a longer part begins with a shorter one. Throws 400 `no_question` for an id that is not there.
 */
export function pickQuestions(
  questions: readonly EvalQuestion[],
  { samples, seed, ids }: PickOptions,
): EvalQuestion[] {
  if (ids !== undefined && ids.length > 0) return namedQuestions(questions, ids).slice(0, samples);
  const hashed = questions.map((question) => ({ question, hash: fnv1a(`${seed}\0${question.id}`) }));
  hashed.sort((a, b) => a.hash - b.hash || (a.question.id < b.question.id ? -1 : 1));
  const sizes = new Map<string, number>();
  for (const { subject = "" } of questions) sizes.set(subject, (sizes.get(subject) ?? 0) + 1);
  const seen = new Map<string, number>();
  const placed = hashed.map(({ question, hash }) => {
    const { subject = "" } = question;
    const number = seen.get(subject) ?? 0;
    seen.set(subject, number + 1);
    // The questions of a subject lie at equal distances, from a start of the subject's own.
    const start = fnv1a(`${seed}\0subject\0${subject}`) / 2 ** 32;
    return { question, place: (number + start) / sizes.get(subject)!, hash };
  });
  placed.sort((a, b) => a.place - b.place || a.hash - b.hash);
  return placed.slice(0, samples).map(({ question }) => question);
}

function namedQuestions(questions: readonly EvalQuestion[], ids: readonly string[]): EvalQuestion[] {
  const byId = new Map(questions.map((question) => [question.id, question]));
  return [...new Set(ids)].map((id) => {
    const found = byId.get(id);
    if (found !== undefined) return found;
    throw new CanopyError(
      `No question has the id "${id}": ids are such as ${
        questions.slice(0, 3).map((question) => `"${question.id}"`).join(", ")
      }`,
      { code: "no_question", status: 400 },
    );
  });
}
