import type { JsonObject } from "../../base/json.ts";
import type { ConsensusRules, EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { equalAnswers } from "../answers/equal_answers.ts";
import { type AnswerExtractor, answerExtractor } from "../answers/extract.ts";
import type { FinalAnswer } from "../answers/final_answer.ts";
import { streamedAnswer, wholeSentences } from "../answers/streamed_answer.ts";
import { confidenceOf } from "./confidence.ts";
import { isCreative } from "./diversity.ts";
import { finite } from "./evidence.ts";
import { majorityIsSettled } from "./stop_rules.ts";
import { unusable } from "./unusable.ts";
import { questionKindsOf, rightProbability } from "./vote_model.ts";

/** Answers that must agree, of nine agents that read nobody, where no rule is given. */
const USUAL_SHARE = 4 / 9;

const NOBODY: readonly AgentVote[] = [];

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
  /** Of those the ones that have said nothing yet, and still may. */
  readonly open: readonly string[];
  /** Keys of models, the largest first. */
  readonly bySize: readonly string[];
}

/** The equal answers that end a run, and those that there may still be. */
export interface VoteOutlook {
  /** Equal answers that end the run. */
  readonly needed: number;
  /** No answer can be that of more agents than so many. */
  readonly most: number;
}

/** Decision to end a run with one agent's answer, or to wait, with every number that it rests on. */
export interface RunDecision {
  /** The agent whose text is the answer; undefined: the run goes on. */
  readonly agent: string | undefined;
  /** The agents whose answers are equal to that one's, in the order in which they became known; empty for a run that goes on. */
  readonly agreeing: readonly string[];
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
  /** The agent whose text is best of the largest group of equal answers; undefined where nobody agrees. */
  leader(state: RunVotes): string | undefined;
  /** What may still come of the votes; `open`: the agents that may vote yet, or anew. Undefined where the rule is no count. */
  outlook(state: RunVotes, open: ReadonlySet<string>): VoteOutlook | undefined;
  /**
   * The agents of the largest group of equal answers, where it stays the largest whatever so many others answer;
   * undefined where it may not, and where no two agree.
   */
  settled(votes: readonly AgentVote[], remaining: number): readonly string[] | undefined;
  /** True for a whole text whose final answer is equal to this one. */
  says(answer: FinalAnswer, ballot: Ballot, question: string): boolean;
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
    const groups = voteGroups(state.votes);
    const { holds, numbers } = this.#rule(groups, largestOf(groups), state);
    const last = holds ? undefined : this.#undecided(groups, state);
    const found = holds ? largestOf(groups) : last?.group ?? [];
    const best = this.#best(found, state.bySize);
    return {
      agent: best?.agent,
      agreeing: found.map(({ agent }) => agent),
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
        ...(this.#rules.undecided === "root" ? {} : { open: [...state.open] }),
        ...last?.numbers,
      },
    };
  }

  leader({ votes, bySize }: RunVotes): string | undefined {
    return this.#leader(voteGroups(votes), bySize)?.agent;
  }

  outlook({ votes, leaves }: RunVotes, open: ReadonlySet<string>): VoteOutlook | undefined {
    if (this.#rules.posterior !== undefined) return undefined;
    const cast = votes.filter(({ agent }) => !open.has(agent));
    const most = Math.max(0, ...cast.map((vote) => equalTo(vote, cast).length)) + open.size;
    return { needed: this.#needed(leaves), most };
  }

  settled(votes: readonly AgentVote[], remaining: number): readonly string[] | undefined {
    const leader = largestOf(voteGroups(votes));
    const others = votes.filter((vote) => !leader.includes(vote));
    // Some may agree with one of the leading group, too: equality in doubt is none, so that it has gaps.
    const rival = Math.max(0, ...others.map((vote) => equalTo(vote, votes).length));
    if (leader.length < 2 || !majorityIsSettled([leader.length, rival], remaining)) return undefined;
    return leader.map(({ agent }) => agent);
  }

  says(answer: FinalAnswer, ballot: Ballot, question: string): boolean {
    const said = this.read(ballot, question);
    return said !== undefined && equalAnswers(said, answer);
  }

  #rule(
    groups: readonly (readonly AgentVote[])[],
    leader: readonly AgentVote[],
    { leaves }: RunVotes,
  ): { readonly holds: boolean; readonly numbers: JsonObject } {
    const { posterior: level } = this.#rules;
    if (level !== undefined) {
      const models = groups.map((group) => group.map(({ model }) => model));
      const posterior = rightProbability(models, groups.indexOf(leader), questionKindsOf(this.#rules));
      return {
        holds: leader.length > 1 && posterior >= level,
        numbers: { rule: "posterior", posterior: finite(posterior), level },
      };
    }
    const needed = this.#needed(leaves);
    return { holds: leader.length >= needed, numbers: { rule: "agree", agreeing: leader.length, needed } };
  }

  /** What leads where the rule has not ended the run by the last vote that it waits for; undefined where it goes on. */
  #undecided(
    groups: readonly (readonly AgentVote[])[],
    { open, bySize }: RunVotes,
  ): { readonly group: readonly AgentVote[]; readonly numbers: JsonObject } | undefined {
    const { undecided, undecided_level: level, posterior } = this.#rules;
    if (undecided === "root" || open.length > 0) return undefined;
    if (posterior === undefined) {
      const leader = this.#leader(groups, bySize);
      const group = groups.find((one) => leader !== undefined && one.includes(leader)) ?? [];
      return { group, numbers: { undecided: true } };
    }
    const models = groups.map((group) => group.map(({ model }) => model));
    const kinds = questionKindsOf(this.#rules);
    const leading = groups.map((group, at) => ({ group, right: rightProbability(models, at, kinds) }))
      .filter(({ group }) => group.length > 1)
      .reduce((best, one) => one.right > best.right ? one : best, { group: NOBODY, right: 0 });
    return {
      group: leading.right >= level ? leading.group : [],
      numbers: { undecided: true, undecided_posterior: finite(leading.right), undecided_level: level },
    };
  }

  #needed(leaves: number): number {
    const { agree, share = USUAL_SHARE } = this.#rules;
    // 4/9 of 9 is 4, whatever the rounding of 4/9.
    return agree ?? Math.max(2, Math.ceil(share * leaves - 1e-9));
  }

  /** Of the largest group of two or more; of equally large ones the best of all. */
  #leader(groups: readonly (readonly AgentVote[])[], bySize: readonly string[]): AgentVote | undefined {
    const most = Math.max(2, ...groups.map(({ length }) => length));
    return this.#best(groups.filter(({ length }) => length === most).flat(), bySize);
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

/** Groups of equal answers: each vote joins the first group with all of whose members it agrees. */
export function voteGroups<Vote extends Pick<AgentVote, "answer">>(votes: readonly Vote[]): Vote[][] {
  const groups: Vote[][] = [];
  for (const vote of votes) {
    const group = groups.find((members) => members.every(({ answer }) => equalAnswers(answer, vote.answer)));
    if (group === undefined) groups.push([vote]);
    else group.push(vote);
  }
  return groups;
}

function largestOf(groups: readonly (readonly AgentVote[])[]): readonly AgentVote[] {
  return groups.reduce((best, group) => group.length > best.length ? group : best, []);
}

/** Those of the votes that a vote is equal to, itself included. */
function equalTo({ answer }: AgentVote, votes: readonly AgentVote[]): AgentVote[] {
  return votes.filter((other) => equalAnswers(other.answer, answer));
}
