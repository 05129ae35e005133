import type { JsonObject } from "../../base/json.ts";
import type { Similarity, SimilarityMetric } from "../scorer.ts";

/** A member that has answered, as an exit policy sees it. */
export interface Completion {
  readonly agent: string;
  /** Key of the model that wrote it. */
  readonly model: string;
  /** Text for successors. */
  readonly text: string;
  /** Natural log-probabilities of its tokens; undefined where the engine gives none. */
  readonly logprobs: readonly number[] | undefined;
  /** True when it did not end by itself: cut by max_tokens or by its deadline. */
  readonly cut: boolean;
}

/** State of a cluster right after one of its members has answered. */
export interface ClusterState {
  /** Seed of the run's draws; a decision's draw depends on it, the cluster's id and the number of completions alone. */
  readonly seed: string;
  readonly cluster: string;
  /** The run's question, as plain text. */
  readonly question: string;
  /** In order of arrival; never empty. */
  readonly completions: readonly Completion[];
  /** Members that have not answered; empty where only the consensus is wanted. */
  readonly unfinished: readonly { readonly agent: string; readonly model: string }[];
}

/** Two completions by their places in `ClusterState.completions`; the first is less than the second. */
export type Pair = readonly [number, number];

/** The probability that a judging model gives to "yes, these two answers agree" against "no". */
export interface Verdict {
  /** In [0, 1]; undefined when it could not be had, `reason` says why. */
  readonly yes: number | undefined;
  readonly reason?: string | undefined;
  readonly model: string;
}

/** Pairs that a policy wants compared before it decides, by similarity and by a judging model. */
export interface EvidenceWanted {
  readonly similarities: readonly Pair[];
  readonly verdicts: readonly Pair[];
}

/** Comparisons that were made in time. */
export interface Evidence {
  similarity(pair: Pair): Similarity | undefined;
  verdict(pair: Pair): Verdict | undefined;
}

/** Agreement among the members. */
export interface Consensus {
  /** Share of the completed members that agree, in [0, 1]. */
  readonly share: number;
  /** The agent whose answer represents them. */
  readonly agent: string;
}

/** Decision to go on without the unfinished members or not, with every number that it rests on. */
export interface ExitDecision {
  readonly exit: boolean;
  /** Agents whose answers successors read when the cluster exits now, in the order of completion; never empty. */
  readonly keep: readonly string[];
  /** Undefined where the policy cannot tell. */
  readonly consensus: Consensus | undefined;
  readonly numbers: JsonObject;
}

/** Data that a policy needs to have collected all through a run. */
export interface PolicyNeeds {
  /** Log-probabilities of the members' tokens. */
  readonly logprobs: boolean;
  /** Members' texts are fed to the scorer as they come. */
  readonly similarity: SimilarityMetric | undefined;
  /** Verdicts may be asked for. */
  readonly verdicts: boolean;
}

/** Decides after each completion in a cluster. Pure: same inputs, same decision. */
export interface ExitPolicy {
  readonly needs: PolicyNeeds;
  /** Evidence for a decision; undefined when no evidence could make it exit or name a consensus. */
  wants(state: ClusterState): EvidenceWanted | undefined;
  decide(state: ClusterState, evidence: Evidence): ExitDecision;
}
