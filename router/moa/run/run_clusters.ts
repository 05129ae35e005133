import { Cluster } from "./cluster.ts";
import type { AgentAnswer } from "../prompt/answer.ts";
import type { AgentGraph, AgentNode, ClusterNode } from "../graph/graph_types.ts";

/** The clusters of one run. */
export class RunClusters {
  readonly #graph: AgentGraph;
  readonly #clusters: ReadonlyMap<ClusterNode, Cluster>;

  constructor(graph: AgentGraph) {
    this.#graph = graph;
    this.#clusters = new Map(graph.clusters.map((node) => [node, new Cluster(node)]));
  }

  of(node: ClusterNode): Cluster {
    const cluster = this.#clusters.get(node);
    if (cluster === undefined) throw new Error(`Cluster ${node.id} is not one of the graph's`);
    return cluster;
  }

  all(): Cluster[] {
    return [...this.#clusters.values()];
  }

  /** The answers that an agent reads, in slot order: as the graph declares them, or as they came. */
  answersFor(reader: AgentNode): AgentAnswer[] {
    const clusters = reader.reads.map((node) => this.of(node));
    if (this.#graph.slots === "completion") {
      return clusters.flatMap(({ completions }) => completions).sort((a, b) => a.sequence - b.sequence);
    }
    return clusters.flatMap(({ node, completions }) => {
      const place = new Map(node.agents.map((agent, index) => [agent.id, index]));
      return [...completions].sort((a, b) => (place.get(a.agent) ?? 0) - (place.get(b.agent) ?? 0));
    });
  }

  /** Those that wait for an agent: in a layered graph one, in an explicit one perhaps several. */
  awaiting(agent: AgentNode): Cluster[] {
    return [...this.#clusters.values()].filter((cluster) => cluster.awaits(agent));
  }

  /** True for an agent that has answered, but whose answer nobody reads: its clusters went on without it. */
  isUnread({ id }: AgentNode): boolean {
    const has = (answers: Cluster["answers"]) => answers.some(({ agent }) => agent === id);
    let unread = false;
    for (const { answers, completions } of this.#clusters.values()) {
      // Asked often, and almost always of clusters that have kept all.
      if (completions.length < answers.length && has(answers) && !has(completions)) unread = true;
    }
    return unread && ![...this.#clusters.values()].some(({ completions }) => has(completions));
  }

  /** The agents that can start now that a cluster has closed: its readers that wait for no other one. */
  ready(node: ClusterNode): AgentNode[] {
    return this.#graph.agents.filter((reader) =>
      reader.reads.includes(node) && reader.reads.every((read) => !this.of(read).open)
    );
  }

  /** Nobody reads a cluster any more. Gives its agents as `idle` does. */
  abandon(node: ClusterNode): AgentNode[] {
    this.of(node).abandon();
    return this.idle(node.agents);
  }

  /** Of some agents those that no cluster waits for; with them go the agents that work for them alone. */
  idle(agents: readonly AgentNode[]): AgentNode[] {
    const idle: AgentNode[] = [];
    for (const agent of agents) {
      if (this.awaiting(agent).length > 0) continue;
      idle.push(agent);
      for (const read of agent.reads) {
        if (this.of(read).open && !this.#isRead(read)) idle.push(...this.abandon(read));
      }
    }
    return idle;
  }

  /** True while an agent that has not ended reads the cluster. */
  #isRead(node: ClusterNode): boolean {
    return this.#graph.agents.some((agent) => agent.reads.includes(node) && this.awaiting(agent).length > 0);
  }
}
