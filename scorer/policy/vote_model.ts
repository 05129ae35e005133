import type { ConsensusRules } from "../../cfgs/schema/early_exit.ts";

/** Share of right answers of a model of which nothing is known. */
const UNKNOWN_SKILL = 0.6;
/** Nobody is surer to be right, or wrong, than this: two who are and disagree would leave nothing that can be. */
const MOST_SKILL = 1 - 1e-9;

/** One kind of questions, such as hard ones. */
export interface QuestionKind {
  /** Share of the questions that are of this kind. */
  readonly share: number;
  /** Share of a model's answers to them that are right, by the model's key. */
  readonly skills: Readonly<Record<string, number>>;
  /** Probability that two wrong answers are equal. */
  readonly coincidence: number;
}

/** Equal answers to one question: the models that gave each, in the order in which they came. */
export type ModelGroups = readonly (readonly string[])[];

/** The answers to one question, for learning. */
export interface VotedQuestion {
  readonly groups: ModelGroups;
  /** Index of the right group, -1 when nobody was right; undefined where nobody knows. */
  readonly right: number | undefined;
}

/** The kinds of questions that the settings know: easy and hard ones, or one of all. */
export function questionKindsOf(
  { difficulties, skills, coincidence }: Pick<ConsensusRules, "difficulties" | "skills" | "coincidence">,
): readonly QuestionKind[] {
  return difficulties ?? [{ share: 1, skills, coincidence }];
}

/**
 * Probability that the answer of a group is right. The votes are taken as independent given the right answer and the
 * question's kind: an agent is right with its model's skill s on such questions (Dawid and Skene 1979, one parameter a
 * model and kind). Wrong answers are as the guests of a Chinese restaurant (Aldous 1985): two are equal with the
 * probability c, and an answer that more have given draws more. So for each kind and group, L = share × Π s of its
 * members × Π (1 − s) of the others × the probability of how those fall into groups; the right answer may also be one
 * that nobody has given. The posterior is the group's L over the sum of all, over the kinds: disagreement so far speaks
 * for hard questions by itself.
 */
export function rightProbability(groups: ModelGroups, at: number, kinds: readonly QuestionKind[]): number {
  if (groups.length === 0) return 0;
  const all = likelihoods(groups, kinds.map((kind) => new KindLogs(kind)));
  let own = 0;
  let total = 0;
  for (const { right, weight } of all) {
    total += weight;
    if (right === at) own += weight;
  }
  return own / total;
}

/** What can have led to the answers to a question, and how likely it is beside the others. */
interface Explanation {
  readonly kind: number;
  /** Index of the right group, -1 for none. */
  readonly right: number;
  readonly weight: number;
}

function likelihoods(groups: ModelGroups, kinds: readonly KindLogs[]): Explanation[] {
  const all: { kind: number; right: number; weight: number }[] = [];
  let highest = -Infinity;
  for (let kind = 0; kind < kinds.length; kind++) {
    const logs = kinds[kind]!.of(groups);
    for (let at = 0; at < logs.length; at++) {
      const weight = logs[at]!;
      highest = Math.max(highest, weight);
      all.push({ kind, right: at - 1, weight });
    }
  }
  for (const one of all) one.weight = Math.exp(one.weight - highest);
  return all;
}

/** Log-likelihoods under one kind of questions, whose logarithms are taken once for all questions. */
class KindLogs {
  readonly #kind: QuestionKind;
  readonly #share: number;
  /** θ = (1 − c) / c new answers for each that is repeated. */
  readonly #theta: number;
  readonly #logTheta: number;
  readonly #skills = new Map<string, { readonly right: number; readonly wrong: number }>();
  /** Sums of log(θ + vote) and of log(vote) over the first votes. */
  readonly #places = [0];
  readonly #factorials = [0, 0];

  constructor(kind: QuestionKind) {
    this.#kind = kind;
    this.#share = Math.log(kind.share);
    this.#theta = (1 - kind.coincidence) / kind.coincidence;
    this.#logTheta = Math.log(this.#theta);
  }

  /** First that no group is right, then each. */
  of(groups: ModelGroups): number[] {
    const right: number[] = [];
    const wrong: number[] = [];
    let votes = 0;
    for (const models of groups) {
      let [isRight, isWrong] = [0, this.#logTheta + this.#factorial(models.length - 1)];
      for (const model of models) {
        const skill = this.#skill(model);
        isRight += skill.right;
        isWrong += skill.wrong;
      }
      right.push(isRight);
      wrong.push(isWrong);
      votes += models.length;
    }
    const logs: number[] = [];
    for (let at = -1; at < groups.length; at++) {
      let sum = this.#share;
      for (let index = 0; index < groups.length; index++) sum += index === at ? right[index]! : wrong[index]!;
      logs.push(sum - this.#placed(at < 0 ? votes : votes - groups[at]!.length));
    }
    return logs;
  }

  #skill(model: string): { readonly right: number; readonly wrong: number } {
    let known = this.#skills.get(model);
    if (known === undefined) {
      const said = this.#kind.skills[model] ?? UNKNOWN_SKILL;
      const skill = Math.min(MOST_SKILL, Math.max(1 - MOST_SKILL, said));
      this.#skills.set(model, known = { right: Math.log(skill), wrong: Math.log(1 - skill) });
    }
    return known;
  }

  #factorial(number: number): number {
    for (let next = this.#factorials.length; next <= number; next++) {
      this.#factorials.push(this.#factorials[next - 1]! + Math.log(next));
    }
    return this.#factorials[number] ?? 0;
  }

  #placed(votes: number): number {
    for (let next = this.#places.length; next <= votes; next++) {
      this.#places.push(this.#places[next - 1]! + Math.log(this.#theta + next - 1));
    }
    return this.#places[votes]!;
  }
}

const ROUNDS = 60;
/** Where learning begins: skills of easy questions, of hard ones, and of all. */
const FIRST_SKILLS: Readonly<Record<number, readonly number[]>> = { 1: [0.7], 2: [0.85, 0.4] };
/** Answers, right and wrong, that are taken as seen before the first one, so that nothing becomes certain. */
const PRIOR = { right: 1.2, all: 2 };

/**
 * Learns what `rightProbability` rests on, by expectation maximisation: from questions whose right answer is known, and
 * from the agreement of models on those where it is not. `kinds`: 1, or 2 for easy and hard questions, which
 * agreement alone does not tell apart: for labelled questions only.
 */
export function learnQuestionKinds(questions: readonly VotedQuestion[], kinds: 1 | 2): QuestionKind[] {
  const models = [...new Set(questions.flatMap(({ groups }) => groups.flat()))].sort();
  let learned = FIRST_SKILLS[kinds]!.map((skill): QuestionKind => ({
    share: 1 / kinds,
    skills: Object.fromEntries(models.map((model) => [model, skill])),
    coincidence: 0.25,
  }));
  for (let round = 0; round < ROUNDS; round++) {
    const sums = learned.map(() => new KindSums(models));
    const logs = learned.map((kind) => new KindLogs(kind));
    for (const { groups, right } of questions) {
      const possible = likelihoods(groups, logs)
        .filter((one) => right === undefined || one.right === right);
      const total = possible.reduce((sum, { weight }) => sum + weight, 0);
      for (const one of possible) sums[one.kind]!.add(groups, one.right, one.weight / total);
    }
    learned = sums.map((sum) => sum.kind(questions.length, kinds));
  }
  return learned;
}

/** The votes of one kind of questions, each counted as far as it belongs there. */
class KindSums {
  readonly #models: Map<string, { right: number; all: number }>;
  #questions = 0;
  /** Groups of wrong answers, and by the number of a question's wrong votes how many there were. */
  #wrongGroups = 0;
  readonly #wrongVotes: number[] = [];

  constructor(models: readonly string[]) {
    this.#models = new Map(models.map((model) => [model, { right: 0, all: 0 }]));
  }

  add(groups: ModelGroups, right: number, weight: number): void {
    this.#questions += weight;
    let votes = 0;
    for (let index = 0; index < groups.length; index++) {
      for (const model of groups[index]!) {
        const sums = this.#models.get(model)!;
        sums.all += weight;
        if (index === right) sums.right += weight;
        else votes++;
      }
    }
    this.#wrongGroups += weight * (right < 0 ? groups.length : groups.length - 1);
    this.#wrongVotes[votes] = (this.#wrongVotes[votes] ?? 0) + weight;
  }

  kind(questions: number, kinds: number): QuestionKind {
    const skills = [...this.#models].map(([model, { right, all }]): [string, number] => [
      model,
      (right + PRIOR.right) / (all + PRIOR.all),
    ]);
    return {
      share: (this.#questions + 1) / (questions + kinds),
      skills: Object.fromEntries(skills),
      coincidence: this.#coincidence(),
    };
  }

  /** The c under which as many groups of wrong answers are expected as there are; between 0.01 and 0.99. */
  #coincidence(): number {
    const expected = (coincidence: number) => {
      const theta = (1 - coincidence) / coincidence;
      let sum = 0;
      for (const [votes, weight] of this.#wrongVotes.entries()) {
        for (let vote = 0; vote < votes; vote++) sum += (weight ?? 0) * theta / (theta + vote);
      }
      return sum;
    };
    let [low, high] = [0.01, 0.99];
    for (let step = 0; step < 30; step++) {
      const middle = (low + high) / 2;
      if (expected(middle) > this.#wrongGroups) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }
}
