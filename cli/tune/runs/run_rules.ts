import type { z } from "zod";
import type { consensusSchema } from "../../../cfgs/schema/early_exit.ts";
import {
  learnQuestionKinds,
  type QuestionKind,
  rightProbability,
} from "../../../scorer/policy/vote_model.ts";
import type { RecordedRun } from "./recorded_run.ts";

/** Rules of `early_exit.consensus` as a file gives them. */
export type WrittenRules = z.input<typeof consensusSchema>;

/** A rule by which runs end, and what it would have done on recorded ones. */
export interface TriedRule {
  readonly name: string;
  readonly written: WrittenRules;
  readonly runs: number;
  readonly exits: number;
  /** Runs by the number of votes at which the rule held, or `never`. */
  readonly votes: Readonly<Record<string, number>>;
  /** Runs that it would have made worse: an answer other than the whole run's, or with labels a wrong one for a right one. */
  readonly losses: number;
  /** Shares of all runs' time and tokens. */
  readonly timeSaved: number;
  /** NaN where the records have no usage. */
  readonly tokensSaved: number;
}

/** Posteriors that are tried, the most cautious one first. */
const LEVELS = [0.999, 0.995, 0.99, 0.98, 0.97, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7, 0.6];

/** Number of equal answers as the rule, from all agents that read nobody down to two. */
export function agreementRules(runs: readonly RecordedRun[]): TriedRule[] {
  const most = Math.max(2, ...runs.map(({ leaves }) => leaves));
  return Array.from({ length: most - 1 }, (_, index) => most - index).map((agree) =>
    tried(runs, {
      name: `${agree} agree`,
      written: { agree },
      holds: (counts, leader) => counts[leader]! >= agree,
    })
  );
}

/** Posteriors as the rule, with what was learned from other runs. */
export function posteriorRules(runs: readonly RecordedRun[], kinds: readonly QuestionKind[]): TriedRule[] {
  const probabilities = new Map<RecordedRun, Map<number, number>>();
  return LEVELS.map((level) =>
    tried(runs, {
      name: `posterior ${level}`,
      written: { posterior: level, difficulties: kinds.map(rounded) },
      holds: (counts, leader, run, count) => {
        if (counts[leader]! < 2) return false;
        const known = probabilities.get(run) ?? new Map<number, number>();
        probabilities.set(run, known);
        let probability = known.get(count);
        if (probability === undefined) {
          known.set(count, probability = rightProbability(...groupsUntil(run, count, leader), kinds));
        }
        return probability >= level;
      },
    })
  );
}

/** The kinds of questions that these runs show: easy and hard ones where all are labelled, otherwise one of all. */
export function learnedKinds(runs: readonly RecordedRun[], labelled: boolean): QuestionKind[] {
  const questions = runs.map((run) => ({
    groups: run.groups.map((group) => group.map((vote) => run.votes[vote]!.model)),
    right: run.right,
  }));
  return learnQuestionKinds(questions, labelled ? 2 : 1);
}

/** A rule as it is asked after each vote: with the sizes of the groups and the place of the largest. */
interface Rule {
  readonly name: string;
  readonly written: WrittenRules;
  readonly holds: (counts: readonly number[], leader: number, run: RecordedRun, count: number) => boolean;
}

function tried(runs: readonly RecordedRun[], { name, written, holds }: Rule): TriedRule {
  const sums = { exits: 0, losses: 0, ms: 0, msTaken: 0, tokens: 0, tokensTaken: 0 };
  const votes: Record<string, number> = {};
  for (const run of runs) {
    const exit = exitOf(run, holds);
    const after = exit?.votes ?? "never";
    votes[after] = (votes[after] ?? 0) + 1;
    const atMs = exit === undefined ? run.wholeMs : Math.min(run.wholeMs, exit.atMs);
    sums.ms += run.wholeMs;
    sums.msTaken += atMs;
    sums.tokens += run.wholeTokens;
    sums.tokensTaken += exit === undefined ? run.wholeTokens : run.tokensUntil(atMs);
    if (exit === undefined) continue;
    sums.exits++;
    if (run.wholeRight && !run.good.has(exit.group)) sums.losses++;
  }
  return {
    name,
    written,
    runs: runs.length,
    exits: sums.exits,
    votes,
    losses: sums.losses,
    timeSaved: 1 - sums.msTaken / sums.ms,
    tokensSaved: 1 - sums.tokensTaken / sums.tokens,
  };
}

const GROUPS_OF_VOTES = new WeakMap<RecordedRun, readonly number[]>();

/** The group of each vote: kept, since many rules are tried on each run. */
function groupsOfVotes(run: RecordedRun): readonly number[] {
  const known = GROUPS_OF_VOTES.get(run);
  if (known !== undefined) return known;
  const groupOf: number[] = [];
  for (const [index, group] of run.groups.entries()) for (const vote of group) groupOf[vote] = index;
  GROUPS_OF_VOTES.set(run, groupOf);
  return groupOf;
}

/** The group whose answer ends the run, when, and after how many votes; undefined when the rule never holds. */
function exitOf(
  run: RecordedRun,
  holds: Rule["holds"],
): { readonly group: number; readonly atMs: number; readonly votes: number } | undefined {
  const groupOf = groupsOfVotes(run);
  const counts = run.groups.map(() => 0);
  let leader = 0;
  for (const [vote, { atMs }] of run.votes.entries()) {
    const group = groupOf[vote]!;
    counts[group]!++;
    // Of equally large groups the one that began first, as in service.
    if (counts[group]! > counts[leader]! || (counts[group] === counts[leader] && group < leader)) {
      leader = group;
    }
    if (holds(counts, leader, run, vote + 1)) return { group: leader, atMs, votes: vote + 1 };
  }
  return undefined;
}

/** The first votes of a run as models by group, and the place of a group among those that had begun. */
function groupsUntil({ groups, votes }: RecordedRun, count: number, leader: number): [string[][], number] {
  const begun = groups.map((group) => group.filter((vote) => vote < count).map((vote) => votes[vote]!.model));
  const before = begun.slice(0, leader).filter(({ length }) => length > 0).length;
  return [begun.filter(({ length }) => length > 0), before];
}

function rounded({ share, skills, coincidence }: QuestionKind): QuestionKind {
  const digits = (value: number) => Number(value.toFixed(4));
  return {
    share: digits(share),
    skills: Object.fromEntries(Object.entries(skills).map(([model, skill]) => [model, digits(skill)])),
    coincidence: digits(coincidence),
  };
}
