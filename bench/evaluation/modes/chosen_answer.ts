import type { EvalQuestion } from "../../datasets/data_set.ts";
import { gradeAnswer } from "../../grading/grade_answer.ts";
import type { EvalAnswer } from "../eval_record.ts";

/**
 * The answer that most of several state, of equally many the one stated first; of texts that state none the first one.
 * Two are the same where the question's grader would take the one for the other: the right answer plays no part.
 */
export async function votedAnswer(
  question: EvalQuestion,
  answers: readonly EvalAnswer[],
): Promise<EvalAnswer> {
  const groups: { readonly stated: string; readonly first: EvalAnswer; votes: number }[] = [];
  for (const answer of answers) {
    const { stated } = await gradeAnswer(question, answer.text);
    if (stated === undefined) continue;
    const same = await groupOf(groups, question, { text: answer.text, stated });
    if (same === undefined) groups.push({ stated, first: answer, votes: 1 });
    else same.votes++;
  }
  const most = Math.max(0, ...groups.map(({ votes }) => votes));
  return groups.find(({ votes }) => votes === most)?.first ?? answers[0]!;
}

/** The group whose answer a text states. */
async function groupOf<Group extends { readonly stated: string }>(
  groups: readonly Group[],
  question: EvalQuestion,
  { text, stated }: { readonly text: string; readonly stated: string },
): Promise<Group | undefined> {
  for (const group of groups) {
    if (group.stated === stated) return group;
    if ((await gradeAnswer({ ...question, answer: group.stated }, text)).outcome === "right") return group;
  }
  return undefined;
}

/** The answer that its model finds likeliest, by the mean log-probability of its tokens. Throws where none is given. */
export function likeliestAnswer(answers: readonly EvalAnswer[]): EvalAnswer {
  const known = answers.flatMap((answer) =>
    answer.meanLogprob === undefined ? [] : [{ answer, logprob: answer.meanLogprob }]
  );
  if (known.length < answers.length) {
    throw new Error("best-of-N needs log-probabilities, and the server gives none for this model");
  }
  const best = Math.max(...known.map(({ logprob }) => logprob));
  return known.find(({ logprob }) => logprob === best)!.answer;
}
