import { learnQuestionKinds, type QuestionKind, rightProbability } from "../../scorer/policy/vote_model.ts";
import type { Proposal, ProposalRow } from "./predictors.ts";

const AGREE = [2, 3, 4, 5, 6];
const POSTERIORS = [0.9, 0.95, 0.99];

/** A rule that ends the reading of a question's answers. */
export interface StoppingRule {
  readonly name: string;
  /** Equal final answers that it asks for; undefined for one that asks for something else. */
  readonly agree?: number | undefined;
  /** How many answers of an order it reads; undefined where it never holds. */
  readonly stop: (order: readonly Proposal[], question: number) => number | undefined;
  /** 1 where what is given after these is right. */
  readonly gives: (read: readonly Proposal[]) => number;
}

/**
 * So many equal final answers; the probability that the most frequent one is right; all of them; and the oracle, which
 * nobody can have. What the probability knows of the models is learned from the other half of the questions.
 */
export function stoppingRules(rows: readonly ProposalRow[]): StoppingRule[] {
  const halves = [0, 1].map((half) => kindsOf(rows.filter((_, question) => question % 2 !== half)));
  return [
    ...AGREE.map((agree): StoppingRule => ({
      name: `${agree} agree`,
      agree,
      stop: (order) => firstAt(order, (groups) => groups[leading(groups)]!.length >= agree),
      gives: leaderIsRight,
    })),
    ...POSTERIORS.map((level): StoppingRule => ({
      name: `posterior ${level}`,
      stop: (order, question) =>
        firstAt(order, (groups) => posterior(groups, halves[question % 2]!) >= level),
      gives: leaderIsRight,
    })),
    { name: "all are read", agree: Infinity, stop: () => undefined, gives: leaderIsRight },
    {
      name: "oracle: the first right one",
      stop: (order) => {
        const at = order.findIndex(({ right }) => right);
        return at < 0 ? undefined : at + 1;
      },
      gives: (read) => Number(read.some(({ right }) => right)),
    },
  ];
}

/** How often models are right and wrong answers equal, from answers of which it is known. */
function kindsOf(rows: readonly ProposalRow[]): readonly QuestionKind[] {
  const known = rows.map(({ proposals }) => {
    const groups = groupsOf(proposals);
    return {
      groups: groups.map((group) => group.map(({ model }) => model)),
      right: groups.findIndex((group) => group[0]!.right),
    };
  });
  return known.length === 0 ? [] : learnQuestionKinds(known, 2);
}

/** After how many answers the groups of equal ones are as they should be. */
function firstAt(
  order: readonly Proposal[],
  holds: (groups: readonly (readonly Proposal[])[]) => boolean,
): number | undefined {
  for (let read = 1; read <= order.length; read++) {
    const groups = groupsOf(order.slice(0, read));
    if (groups.length > 0 && holds(groups)) return read;
  }
  return undefined;
}

/** Equal final answers, in the order of their first ones. */
function groupsOf(read: readonly Proposal[]): readonly (readonly Proposal[])[] {
  const groups = new Map<string, Proposal[]>();
  for (const proposal of read) {
    if (proposal.stated === null) continue;
    const group = groups.get(proposal.stated);
    if (group === undefined) groups.set(proposal.stated, [proposal]);
    else group.push(proposal);
  }
  return [...groups.values()];
}

/** The largest group; of several the one that came first. */
function leading(groups: readonly (readonly Proposal[])[]): number {
  let leader = 0;
  for (const [at, group] of groups.entries()) if (group.length > groups[leader]!.length) leader = at;
  return leader;
}

/** Probability that the leading answer is right; a single one has none yet. */
function posterior(groups: readonly (readonly Proposal[])[], kinds: readonly QuestionKind[]): number {
  const at = leading(groups);
  if (kinds.length === 0 || groups[at]!.length < 2) return 0;
  return rightProbability(groups.map((group) => group.map(({ model }) => model)), at, kinds);
}

/** 1 where the most frequent final answer is right. */
export function leaderIsRight(read: readonly Proposal[]): number {
  const groups = groupsOf(read);
  return groups.length > 0 && groups[leading(groups)]![0]!.right ? 1 : 0;
}
