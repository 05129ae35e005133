import type { Completion } from "../../../scorer/policy/exit_policy.ts";
import type { AgentNode, ClusterNode } from "../graph/graph_types.ts";

/** A member's answer, as early exit sees it. */
export interface PanelAnswer extends Completion {
  /** Tokens of the answer, reasoning included. */
  readonly tokens: number;
}

/** A cluster and what its members have come to, as early exit sees them. */
export interface Panel {
  readonly node: ClusterNode;
  /** True until the cluster has closed, failed or been abandoned. */
  readonly open: boolean;
  /** All answers, in the order in which they came. */
  readonly answers: readonly PanelAnswer[];
  /** Those of the answers that successors read: all, unless an exit has kept only some. */
  readonly completions: readonly PanelAnswer[];
  /** Members that are still at work. */
  readonly unfinished: readonly AgentNode[];
}
