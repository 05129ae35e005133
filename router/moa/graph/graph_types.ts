import type { EarlyExitConfig, Effort } from "../../../cfgs/schema/early_exit.ts";
import type { StaircaseConfig } from "../../../cfgs/schema/staircase.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { PromptTemplate } from "./template.ts";

/** One LLM call of a graph. */
export interface AgentNode {
  /** `l<layer>.c<cluster>.a<n>`, from 1; in an explicit DAG the name from the config. */
  readonly id: string;
  /** Key of the served model. */
  readonly model: string;
  /** Parsed once; agents with the same prompt share it. */
  readonly template: PromptTemplate;
  /** The request field that holds its prompt, for errors; absent: it is made from the request's question. */
  readonly promptField?: string | undefined;
  readonly sampling: Sampling;
  /** Longest time from its start to its end, all attempts together. */
  readonly deadlineMs: number | undefined;
  /** Fate of the text that it has written when its deadline passes. */
  readonly onDeadline: "drop" | "use_partial";
  /** The clusters whose answers it reads, in prompt order; empty for a leaf. */
  readonly reads: readonly ClusterNode[];
}

/** The set of agents that a successor reads together, and the unit of early exit. */
export interface ClusterNode {
  /** `l<layer>.c<cluster>`; in an explicit DAG `<successor>.reads`; `outputs` of a graph without a root. */
  readonly id: string;
  readonly agents: readonly AgentNode[];
  /** Answers it needs to close; with fewer the run fails. */
  readonly minResponses: number;
  /** Answers without which no early exit closes it; absent: `minResponses`. */
  readonly minOnExit?: number | undefined;
  /** Of metric `none`: it always waits for all. */
  readonly earlyExit: EarlyExitConfig;
}

/** A checked graph, ready to be run: a DAG. */
export interface AgentGraph {
  /** The virtual model's name. */
  readonly name: string;
  /** Equal ones have the same agents, prompts and parameters; absent: the graph came with its request. */
  readonly hash?: string | undefined;
  /** In topological order: every agent after all that it reads; the root is last. */
  readonly agents: readonly AgentNode[];
  /** Each has at least one reader, or is `outputs`. */
  readonly clusters: readonly ClusterNode[];
  /** The agent whose output is the answer; undefined in a graph with `outputs`. */
  readonly root: AgentNode | undefined;
  /**
   * Instead of a root: the agents that nobody reads. The run is done when this cluster closes; an agent whose
   * precursors fail then fails alone.
   */
  readonly outputs?: ClusterNode | undefined;
  /**
   * Several agents, the root among them, whose answers one after the other are the run's, as of MoA-vllm: the run is
   * done when this cluster closes.
   */
  readonly joined?: ClusterNode | undefined;
  readonly slots: "declared" | "completion";
  readonly stripReasoning: boolean;
  readonly deadlineMs: number | undefined;
  readonly compat: "moa-vllm" | undefined;
  /** Texts whose control tokens are taken apart in prompts that the engine tokenises; by default agents' answers. */
  readonly neutralisedTexts?: "answers" | "all" | "none" | undefined;
  readonly incrementalPrefill: {
    readonly mode: "off" | "auto" | "on";
    readonly chunkTokens: number | undefined;
    /** Longest stall of other streams by one warm, where prefill and decode share a GPU. */
    readonly maxStallMs: number;
  };
  /** Settings of scope `run`: the whole run ends when its agents agree. */
  readonly runExit?: EarlyExitConfig | undefined;
  /** Prompt of the model that writes up what a run's agents agree on; absent: one agent's text is given. */
  readonly rewriteTemplate?: PromptTemplate | undefined;
  /** Leaves whose text repeats itself are ended. */
  readonly endLoops?: boolean | undefined;
  /** Tokens that an agent's answer is expected to have, where a request has a budget. */
  readonly answerTokens?: number | undefined;
  /** The level of effort that the request has chosen; undefined where it chose none. */
  readonly effort?: Effort | undefined;
  /** The root may start on the first words of its precursors; absent: it may not. */
  readonly staircase?: GraphStaircase | undefined;
  /** Fate of answers that are too long for the context of the agent that reads them. */
  readonly onOverflow: "cut_middle" | "refuse";
}

/** A graph's way of starting its root before the precursors are done. */
export interface GraphStaircase {
  /** Runs have it whose requests do not say otherwise. */
  readonly byDefault: boolean;
  readonly settings: StaircaseConfig;
  /** The reason why no run can have it, as the end of a sentence. */
  readonly refusal: string | undefined;
}

/** A graph with one root, as virtual models have it. */
export interface Graph extends AgentGraph {
  readonly root: AgentNode;
  /** The graph at each level of `reasoning_effort`; undefined where that goes to the root's engine. */
  readonly efforts?: Readonly<Record<Effort, Graph>> | undefined;
}

/** The agent whose output alone is the run's, as it comes; undefined where there are several. */
export function soleRoot({ root, joined }: Pick<AgentGraph, "root" | "joined">): AgentNode | undefined {
  return joined === undefined ? root : undefined;
}

/** The agents whose outputs are the answer of a virtual model. */
export function answeringAgents({ root, joined }: Pick<AgentGraph, "root" | "joined">): readonly AgentNode[] {
  return joined?.agents ?? (root === undefined ? [] : [root]);
}
