import type { JsonObject } from "../../base/json.ts";
import type { ConsensusRules, EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { equalAnswers } from "../answers/equal_answers.ts";
import { type AnswerExtractor, answerExtractor } from "../answers/extract.ts";
import type { FinalAnswer } from "../answers/final_answer.ts";
import { streamedAnswer, wholeSentences } from "../answers/streamed_answer.ts";
import { confidenceOf } from "./confidence.ts";
import { isCreative } from "./diversity.ts";
import { finite } from "./evidence.ts";
import { unusable } from "./unusable.ts";

/** Answers that must agree, of nine agents that read nobody, where no rule is given. */
const USUAL_SHARE = 4 / 9;
/** Share of right answers of a model of which nothing is known. */
const UNKNOWN_SKILL = 0.6;

/** An agent's text, written so far or whole. */
export interface Ballot {
  readonly text: string;
  readonly whole: boolean;
  /** True when it was cut by a limit. */
  readonly cut: boolean;
}

/** An agent's final answer, in the order in which they became known. */
export interface AgentVote {
  readonly agent: string;
  /** Key of its model. */
  readonly model: string;
  readonly answer: FinalAnswer;
  /** Natural log-probabilities of its tokens so far; undefined where the engine gives none. */
  readonly logprobs: readonly number[] | undefined;
}

/** Everything that a run's agents have come to. */
export interface RunVotes {
  readonly votes: readonly AgentVote[];
  /** Agents that read nobody. */
  readonly leaves: number;
  /** Keys of models, the largest first. */
  readonly bySize: readonly string[];
}

/** Decision to end a run with one agent's answer, or to wait, with every number that it rests on. */
export interface RunDecision {
  /** The agent whose text is the answer; undefined: the run goes on. */
  readonly agent: string | undefined;
  readonly numbers: JsonObject;
}

/** Decides after each final answer of a run whether it ends. Pure: the same votes, the same decision. */
export interface RunExitPolicy {
  /** True when it looks at log-probabilities. */
  readonly needsLogprobs: boolean;
  /** The rule that forbids to end a run early, whatever its agents say; undefined for none. */
  guard(question: string): "creative" | undefined;
  /** The final answer that a text has; undefined for none, and for a text that cannot agree with others. */
  read(ballot: Ballot, question: string): FinalAnswer | undefined;
  /** The part of an unfinished text that holds its announced answer, and can be given. */
  given(text: string): string;
  decide(state: RunVotes): RunDecision;
}

/** Ends a run when enough of its final answers agree. */
export class RunConsensusPolicy implements RunExitPolicy {
  readonly #rules: ConsensusRules;
  readonly #settings: EarlyExitConfig;
  readonly #extract: AnswerExtractor;

  constructor(settings: EarlyExitConfig) {
    this.#settings = settings;
    this.#rules = settings.consensus;
    this.#extract = answerExtractor(settings.answer);
  }

  get needsLogprobs(): boolean {
    return this.#rules.best === "confident";
  }

  guard(question: string): "creative" | undefined {
    return this.#settings.diversity_guard && isCreative(question) ? "creative" : undefined;
  }

  read({ text, whole, cut }: Ballot, question: string): FinalAnswer | undefined {
    if (whole) return unusable({ text, cut }) === undefined ? this.#extract(text, question) : undefined;
    return this.#rules.while_written ? streamedAnswer(this.#extract, text, question) : undefined;
  }

  given(text: string): string {
    return wholeSentences(text);
  }

  decide(state: RunVotes): RunDecision {
    const groups = groupsOf(state.votes);
    const leader = groups.reduce<readonly AgentVote[]>(
      (best, group) => group.length > best.length ? group : best,
      [],
    );
    const { holds, numbers } = this.#rule(groups, leader, state);
    const best = holds ? this.#best(leader, state.bySize) : undefined;
    return {
      agent: best?.agent,
      numbers: {
        votes: state.votes.map(({ agent, model, answer: { kind, text, value } }) => ({
          agent,
          model,
          kind,
          text,
          value,
        })),
        groups: groups.map((group) => group.map(({ agent }) => agent)),
        ...numbers,
      },
    };
  }

  #rule(
    groups: readonly (readonly AgentVote[])[],
    leader: readonly AgentVote[],
    { leaves }: RunVotes,
  ): { readonly holds: boolean; readonly numbers: JsonObject } {
    const { posterior: level, agree, share = USUAL_SHARE } = this.#rules;
    if (level !== undefined) {
      const posterior = leaderIsRight(groups, leader, this.#rules);
      return {
        holds: leader.length > 1 && posterior >= level,
        numbers: { rule: "posterior", posterior: finite(posterior), level },
      };
    }
    // 4/9 of 9 is 4, whatever the rounding of 4/9.
    const needed = agree ?? Math.max(2, Math.ceil(share * leaves - 1e-9));
    return { holds: leader.length >= needed, numbers: { rule: "agree", agreeing: leader.length, needed } };
  }

  #best(leader: readonly AgentVote[], bySize: readonly string[]): AgentVote | undefined {
    const { best } = this.#rules;
    if (best === "first") return leader[0];
    const rank = best === "largest"
      ? ({ model }: AgentVote) => -bySize.indexOf(model)
      : ({ logprobs }: AgentVote) => confidenceOf(logprobs, this.#settings) ?? -1;
    return leader.reduce<AgentVote | undefined>(
      (found, vote) => found === undefined || rank(vote) > rank(found) ? vote : found,
      undefined,
    );
  }
}

/** Each vote joins the first group with all of whose members it agrees. */
function groupsOf(votes: readonly AgentVote[]): AgentVote[][] {
  const groups: AgentVote[][] = [];
  for (const vote of votes) {
    const group = groups.find((members) => members.every(({ answer }) => equalAnswers(answer, vote.answer)));
    if (group === undefined) groups.push([vote]);
    else group.push(vote);
  }
  return groups;
}

/**
 * Probability that the leading answer is right. The votes are taken as independent given the right answer: an agent
 * has it with its model's skill s (a Dawid–Skene model with one parameter a model); a wrong answer equals one that is
 * already there with the probability c of a coincidence. So for each group g, L(g) = Π s of its members × Π (1 − s) of
 * the others × c for each wrong vote that repeats another one; the right answer may also be one that nobody has
 * given. The posterior is L of the leader over the sum of all.
 */
export function leaderIsRight(
  groups: readonly (readonly AgentVote[])[],
  leader: readonly AgentVote[],
  { skills, coincidence }: Pick<ConsensusRules, "skills" | "coincidence">,
): number {
  const skill = ({ model }: AgentVote) => skills[model] ?? UNKNOWN_SKILL;
  const logLikelihood = (right: readonly AgentVote[] | undefined): number => {
    let sum = 0;
    for (const group of groups) {
      if (group !== right) sum += (group.length - 1) * Math.log(coincidence);
      for (const vote of group) sum += Math.log(group === right ? skill(vote) : 1 - skill(vote));
    }
    return sum;
  };
  if (groups.length === 0) return 0;
  const all = [undefined, ...groups].map(logLikelihood);
  const highest = Math.max(...all);
  const total = all.reduce((sum, one) => sum + Math.exp(one - highest), 0);
  return Math.exp(logLikelihood(leader) - highest) / total;
}
