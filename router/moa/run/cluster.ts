import type { Panel, PanelAnswer } from "../exit/panel.ts";
import type { AgentNode, ClusterNode } from "../graph/graph_types.ts";

/** A member's answer, and its turn. */
export interface Answered extends PanelAnswer {
  /** Place in the order in which the run's agents ended, from 1. */
  readonly sequence: number;
}

/** A member that has no answer, and why. */
export interface MemberFailure {
  readonly agent: AgentNode;
  readonly error: unknown;
}

/** The state of a cluster after one of its members has ended. */
export type ClusterStep =
  | { readonly kind: "waits" }
  /** Its readers may start; `dropped` are the members that it did not wait for. */
  | { readonly kind: "closed"; readonly dropped: readonly AgentNode[] }
  /** It cannot reach its `minResponses` any more. */
  | { readonly kind: "failed"; readonly failures: readonly MemberFailure[] };

/**
 * Counts what the members of a cluster have come to. It closes when all of them have ended, or earlier on `exit`,
 * and never with fewer answers than `minResponses`, on `exit` than `minOnExit`.
 */
export class Cluster implements Panel {
  readonly node: ClusterNode;
  readonly #unfinished: Set<AgentNode>;
  readonly #answers: Answered[] = [];
  #completions: readonly Answered[] = this.#answers;
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

  /** All answers, in the order in which they came. */
  get answers(): readonly Answered[] {
    return this.#answers;
  }

  /** Those of the answers that successors read: all, unless an exit has kept only some. */
  get completions(): readonly Answered[] {
    return this.#completions;
  }

  /** Members that are still at work. */
  get unfinished(): readonly AgentNode[] {
    return [...this.#unfinished];
  }

  /** True while the cluster waits for this agent. */
  awaits(agent: AgentNode): boolean {
    return this.#open && this.#unfinished.has(agent);
  }

  /** A member has answered. */
  answered(agent: AgentNode, answer: Answered): ClusterStep {
    if (!this.awaits(agent)) return { kind: "waits" };
    this.#unfinished.delete(agent);
    this.#answers.push(answer);
    return this.#next();
  }

  /** A member will not answer. */
  failed(agent: AgentNode, error: unknown): ClusterStep {
    if (!this.awaits(agent)) return { kind: "waits" };
    this.#unfinished.delete(agent);
    this.#failures.push({ agent, error });
    return this.#next();
  }

  /**
   * Closes without the members that still work, and without the answers of agents that are not in `keep` (if none of
   * them has answered: with all); goes on waiting when there are not enough answers yet.
   */
  exit(keep: readonly string[]): ClusterStep {
    const { minResponses, minOnExit = minResponses } = this.node;
    if (!this.#open || this.#answers.length < minOnExit) return { kind: "waits" };
    const kept = this.#answers.filter(({ agent }) => keep.includes(agent));
    if (kept.length > 0) this.#completions = kept;
    return this.#close();
  }

  /** Nobody will read it any more: it waits for nothing. */
  abandon(): void {
    this.#open = false;
  }

  #next(): ClusterStep {
    if (this.#answers.length + this.#unfinished.size < this.node.minResponses) {
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
