import { CanopyError } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { ClusterNode } from "./graph_types.ts";

/** A member that has answered, as an exit policy sees it. */
export interface Completion {
  readonly agent: string;
  /** What successors read. */
  readonly text: string;
  /** Place in the order in which the run's agents ended, from 1. */
  readonly sequence: number;
}

/** A cluster in which members still work, right after one has answered. */
export interface ClusterState {
  /** With the cluster's id and the number of completions the seed of everything random in a decision. */
  readonly runId: string;
  readonly cluster: ClusterNode;
  /** In the order in which they came; never empty. */
  readonly completions: readonly Completion[];
  /** Members that are still at work; never empty. */
  readonly unfinished: readonly string[];
}

/** Whether to go on without the unfinished members, and every number that this was decided on. */
export interface ExitDecision {
  readonly exit: boolean;
  readonly numbers: JsonObject;
}

/** Decides after each completion in a cluster. Pure: same inputs and seed, same decision. */
export interface ExitPolicy {
  decide(state: ClusterState): ExitDecision;
}

/** The policy of a metric; undefined for `none`. Throws `invalid_config` for a metric that does not exist here. */
export function exitPolicyOf(settings: ClusterNode["earlyExit"]): ExitPolicy | undefined {
  if (settings.metric === "none") return undefined;
  throw new CanopyError(
    `early_exit.metric "${settings.metric}" is not available in this version: use "none"`,
    { code: "invalid_config", status: 400, param: "early_exit.metric" },
  );
}
