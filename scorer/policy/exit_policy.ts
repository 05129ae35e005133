import type { JsonObject } from "../../base/json.ts";
import type { Similarity, SimilarityMetric } from "../scorer.ts";

/** A member that has answered, as an exit policy sees it. */
export interface Completion {
  readonly agent: string;
  /** Key of the model that wrote it. */
  readonly model: string;
  /** What successors read. */
  readonly text: string;
  /** Natural log-probabilities of its tokens; undefined where the engine gives none. */
  readonly logprobs: readonly number[] | undefined;
  /** True when it did not end by itself: cut by max_tokens or by its deadline. */
  readonly cut: boolean;
}

/** A cluster right after one of its members has answered. */
export interface ClusterState {
  /** With the cluster's id and the number of completions the seed of everything random in a decision. */
  readonly runId: string;
  readonly cluster: string;
  /** What the run was asked, as plain text. */
  readonly question: string;
  /** In the order in which they came; never empty. */
  readonly completions: readonly Completion[];
  /** Members that are still at work; empty where only the consensus is asked for. */
  readonly unfinished: readonly { readonly agent: string; readonly model: string }[];
}

/** Two completions by their places in `ClusterState.completions`; the first is less than the second. */
export type Pair = readonly [number, number];

/** The probability that a judging model gives to "yes, these two answers agree" against "no". */
export interface Verdict {
  /** In [0, 1]; undefined when it could not be had, `reason` says why. */
  readonly yes: number | undefined;
  readonly reason?: string;
  readonly model: string;
}

/** What a policy wants to know before it decides: the pairs to compare, with either means. */
export interface EvidenceWanted {
  readonly similarities: readonly Pair[];
  readonly verdicts: readonly Pair[];
}

/** What could be found out in time. */
export interface Evidence {
  similarity(pair: Pair): Similarity | undefined;
  verdict(pair: Pair): Verdict | undefined;
}

/** Members that say the same. */
export interface Consensus {
  /** Share of the completed members that agree, in [0, 1]. */
  readonly share: number;
  /** The agent whose answer stands for theirs. */
  readonly agent: string;
}

/** Whether to go on without the unfinished members, and every number that this was decided on. */
export interface ExitDecision {
  readonly exit: boolean;
  /** Agents whose answers successors read when the cluster exits now, in the order of completion; never empty. */
  readonly keep: readonly string[];
  /** Undefined where the policy cannot tell. */
  readonly consensus: Consensus | undefined;
  readonly numbers: JsonObject;
}

/** What a policy needs all through a run, so that it is at hand when a member has answered. */
export interface PolicyNeeds {
  /** Log-probabilities of the members' tokens. */
  readonly logprobs: boolean;
  /** Members' texts are fed to the scorer as they come. */
  readonly similarity: SimilarityMetric | undefined;
  /** Verdicts may be asked for. */
  readonly verdicts: boolean;
}

/** Decides after each completion in a cluster. Pure: same inputs and seed, same decision. */
export interface ExitPolicy {
  readonly needs: PolicyNeeds;
  /** Undefined when it would not exit and can name no consensus, whatever the evidence says. */
  wants(state: ClusterState): EvidenceWanted | undefined;
  decide(state: ClusterState, evidence: Evidence): ExitDecision;
}
