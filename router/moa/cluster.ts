import type { Completion, ExitDecision, ExitPolicy } from "./exit_policy.ts";
import type { AgentNode, ClusterNode } from "./graph_types.ts";

/** A member that has no answer, and why. */
export interface MemberFailure {
  readonly agent: AgentNode;
  readonly error: unknown;
}

/** What a member's end means for its cluster. */
export type ClusterStep =
  | { readonly kind: "waits"; readonly decision?: ExitDecision }
  /** Its readers may start; `dropped` are the members that nobody waits for any more. */
  | { readonly kind: "closed"; readonly dropped: readonly string[]; readonly decision?: ExitDecision }
  /** It cannot reach its `minResponses` any more. */
  | { readonly kind: "failed"; readonly failures: readonly MemberFailure[] };

/**
 * Counts what the members of a cluster have come to, and decides when its readers may start. It closes when all
 * members have ended or when its exit policy says so, but never with fewer answers than `minResponses`.
 */
export class Cluster {
  readonly node: ClusterNode;
  readonly #runId: string;
  readonly #policy: ExitPolicy | undefined;
  readonly #unfinished: Set<string>;
  readonly #completions: Completion[] = [];
  readonly #failures: MemberFailure[] = [];
  #open = true;

  constructor(node: ClusterNode, runId: string, policy: ExitPolicy | undefined) {
    this.node = node;
    this.#runId = runId;
    this.#policy = policy;
    this.#unfinished = new Set(node.agents.map((agent) => agent.id));
  }

  get open(): boolean {
    return this.#open;
  }

  /** Members that have answered, in the order in which they did. */
  get completions(): readonly Completion[] {
    return this.#completions;
  }

  /** A member has answered. */
  answered(completion: Completion): ClusterStep {
    if (!this.#leave(completion.agent)) return { kind: "waits" };
    this.#completions.push(completion);
    return this.#next(true);
  }

  /** A member will not answer. */
  failed(failure: MemberFailure): ClusterStep {
    if (!this.#leave(failure.agent.id)) return { kind: "waits" };
    this.#failures.push(failure);
    return this.#next(false);
  }

  /** False when the cluster does not care: it is closed, or the agent is not (any more) one of its members. */
  #leave(agent: string): boolean {
    return this.#open && this.#unfinished.delete(agent);
  }

  #next(hasNewAnswer: boolean): ClusterStep {
    const answers = this.#completions.length;
    if (answers + this.#unfinished.size < this.node.minResponses) {
      this.#open = false;
      return { kind: "failed", failures: this.#failures };
    }
    if (this.#unfinished.size === 0) return this.#close();
    if (!hasNewAnswer || this.#policy === undefined || answers < this.node.minResponses) {
      return { kind: "waits" };
    }
    const decision = this.#policy.decide({
      runId: this.#runId,
      cluster: this.node,
      completions: this.#completions,
      unfinished: [...this.#unfinished],
    });
    return decision.exit ? { ...this.#close(), decision } : { kind: "waits", decision };
  }

  #close(): ClusterStep & { kind: "closed" } {
    this.#open = false;
    return { kind: "closed", dropped: [...this.#unfinished] };
  }
}
