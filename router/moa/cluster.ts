import type { ClusterState, Completion } from "./exit_policy.ts";
import type { AgentNode, ClusterNode } from "./graph_types.ts";

/** A member that has no answer, and why. */
export interface MemberFailure {
  readonly agent: AgentNode;
  readonly error: unknown;
}

/** What became of a cluster. */
export type ClusterStep =
  | { readonly kind: "waits" }
  /** Its readers may start; `dropped` are the members that it did not wait for. */
  | { readonly kind: "closed"; readonly dropped: readonly AgentNode[] }
  /** It cannot reach its `minResponses` any more. */
  | { readonly kind: "failed"; readonly failures: readonly MemberFailure[] };

/**
 * Counts what the members of a cluster have come to. It closes when all of them have ended, or earlier on `exit`,
 * and never with fewer answers than `minResponses`.
 */
export class Cluster {
  readonly node: ClusterNode;
  readonly #unfinished: Set<AgentNode>;
  readonly #completions: Completion[] = [];
  readonly #failures: MemberFailure[] = [];
  #open = true;

  constructor(node: ClusterNode) {
    this.node = node;
    this.#unfinished = new Set(node.agents);
  }

  /** True until it has closed, failed or been abandoned. */
  get open(): boolean {
    return this.#open;
  }

  /** Members that have answered, in the order in which they did. */
  get completions(): readonly Completion[] {
    return this.#completions;
  }

  /** True while the cluster waits for this agent. */
  awaits(agent: AgentNode): boolean {
    return this.#open && this.#unfinished.has(agent);
  }

  /** A member has answered. */
  answered(agent: AgentNode, completion: Completion): ClusterStep {
    if (!this.awaits(agent)) return { kind: "waits" };
    this.#unfinished.delete(agent);
    this.#completions.push(completion);
    return this.#next();
  }

  /** A member will not answer. */
  failed(agent: AgentNode, error: unknown): ClusterStep {
    if (!this.awaits(agent)) return { kind: "waits" };
    this.#unfinished.delete(agent);
    this.#failures.push({ agent, error });
    return this.#next();
  }

  /** Closes without the members that still work; goes on waiting when there are not enough answers yet. */
  exit(): ClusterStep {
    if (!this.#open || this.#completions.length < this.node.minResponses) return { kind: "waits" };
    return this.#close();
  }

  /** Nobody will read it any more: it waits for nothing. */
  abandon(): void {
    this.#open = false;
  }

  /** What an exit policy decides on. */
  state(runId: string): ClusterState {
    return {
      runId,
      cluster: this.node,
      completions: this.#completions,
      unfinished: [...this.#unfinished].map((agent) => agent.id),
    };
  }

  #next(): ClusterStep {
    if (this.#completions.length + this.#unfinished.size < this.node.minResponses) {
      this.#open = false;
      return { kind: "failed", failures: this.#failures };
    }
    return this.#unfinished.size === 0 ? this.#close() : { kind: "waits" };
  }

  #close(): ClusterStep {
    this.#open = false;
    return { kind: "closed", dropped: [...this.#unfinished] };
  }
}
