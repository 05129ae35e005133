import type { AgentConfig, GraphConfig, LayerConfig } from "../schema/config.ts";
import type { ConfigPath } from "../schema/config_path.ts";
import { type EarlyExitConfig, noEarlyExit } from "../schema/early_exit.ts";

/** One agent of an expanded graph. */
export interface ExpandedAgent {
  /** `l<layer>.c<cluster>.a<n>`, from 1; in an explicit DAG the name from the config. */
  readonly id: string;
  readonly path: ConfigPath;
  /** Prompt name, sampling and deadline are filled from cluster, layer and graph, the nearest one winning. */
  readonly config: AgentConfig & { readonly prompt: string };
  /** Ids of the clusters whose answers it reads, in prompt order; empty for a leaf. */
  readonly reads: readonly string[];
  /** Use of the text that it has written when its deadline passes. */
  readonly onDeadline: "drop" | "use_partial";
}

/** The agents that one successor reads together. */
export interface ExpandedCluster {
  /** `l<layer>.c<cluster>`; in an explicit DAG `<successor>.reads`. */
  readonly id: string;
  readonly path: ConfigPath;
  /** Ids of its members, in prompt order. */
  readonly agents: readonly string[];
  readonly minResponses: number;
  /** Answers without which no early exit closes it. */
  readonly minOnExit: number;
  readonly onDeadline: "drop" | "use_partial";
  readonly earlyExit: EarlyExitConfig;
}

/** A graph with every agent and cluster written out: a DAG with one root. */
export interface ExpandedGraph {
  /** Every agent stands after all that it reads; the root is last. */
  readonly agents: readonly ExpandedAgent[];
  /** Every cluster has at least one reader, or is `joined`. */
  readonly clusters: readonly ExpandedCluster[];
  readonly rootId: string;
  /** The last layer of several agents, whose answers one after the other are the run's (MoA-vllm); the root is one. */
  readonly joined?: ExpandedCluster | undefined;
}

/** A problem of a graph with its place. */
export interface TopologyProblem {
  readonly path: ConfigPath;
  readonly message: string;
}

/** Most agents of one graph: a typing error such as `"clusters": 90000` must not fill the memory. */
export const MAX_AGENTS = 1024;

/** Rules that layers and clusters may set for their members. */
export type ClusterRules = Pick<LayerConfig, "min_responses" | "deadline_ms" | "on_deadline" | "early_exit">;

/** Settings that an agent inherits where it says nothing itself. */
export interface InheritedSettings extends Pick<LayerConfig, "sampling" | "deadline_ms"> {
  readonly prompt: string;
}

/** An agent's config with what its layer and graph say filled in; the agent's own values win. */
export function fillAgent(agent: AgentConfig, inherited: InheritedSettings): ExpandedAgent["config"] {
  return {
    model: agent.model,
    prompt: agent.prompt ?? inherited.prompt,
    sampling: { ...inherited.sampling, ...agent.sampling },
    deadline_ms: agent.deadline_ms ?? inherited.deadline_ms,
  };
}

/** A cluster as it is written. */
export interface WrittenCluster {
  readonly id: string;
  readonly path: ConfigPath;
  /** Ids of its members, in prompt order. */
  readonly agents: readonly string[];
  readonly rules: ClusterRules;
}

/** A cluster with the rules that hold for it. Adds what is wrong to `problems`. */
export function makeCluster(
  { id, path, agents, rules }: WrittenCluster,
  graph: GraphConfig,
  problems: TopologyProblem[],
): ExpandedCluster {
  if (rules.min_responses !== undefined && rules.min_responses > agents.length) {
    problems.push({
      path: [...path, "min_responses"],
      message: `is ${rules.min_responses} but the cluster has only ${agents.length} agents`,
    });
  }
  // A graph-wide minimum is meant for all clusters, so a small one needs no more than all its members.
  const asked = rules.min_responses ??
    (graph.min_responses === undefined ? undefined : Math.min(graph.min_responses, agents.length));
  return {
    id,
    path,
    agents,
    minResponses: asked ?? defaultMinimum(agents.length, graph),
    // Members that fail are one thing, members that are not waited for another.
    minOnExit: asked ?? 1,
    onDeadline: rules.on_deadline ?? graph.on_deadline,
    earlyExit: rules.early_exit ?? (graph.early_exit.scope === "run" ? noEarlyExit : graph.early_exit),
  };
}

/** More than half of a cluster's members; all of them under MoA-vllm's rules, where one failed call ends the request. */
function defaultMinimum(members: number, { compat }: GraphConfig): number {
  return compat === "moa-vllm" ? members : Math.floor(members / 2) + 1;
}
