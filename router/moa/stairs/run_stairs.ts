import type { Clock } from "../../../base/clock.ts";
import { turnByTurn } from "../../../base/turns.ts";
import type { AgentCall, Asked } from "../agent/agent_call.ts";
import type { AnswerSteps } from "../agent/answer_steps.ts";
import { whyNotGoneOn } from "../agent/resumed_answer.ts";
import { type AgentGraph, type AgentNode, soleRoot } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import type { Precursor } from "../prompt/answer_layout.ts";
import { contextTokensOf, type PromptTarget, type RunPrompts } from "../prompt/run_prompts.ts";
import type { Trace } from "../record/trace.ts";
import type { Sampling } from "../../engines/engine.ts";
import { type Ahead, aheadOf, goingAhead } from "./ahead.ts";
import { NodeStairs } from "./node_stairs.ts";

/** The agents of a run, as its staircase needs them. */
export interface ClimbingAgents {
  of(node: AgentNode): readonly AgentCall[];
  target(node: AgentNode): PromptTarget;
  letClimb(node: AgentNode): void;
  /** The state of the agents that one reads, in declared order. */
  precursors(node: AgentNode): readonly Precursor[];
}

/** Options of `RunStairs`. */
export interface RunStairsOptions {
  readonly graph: AgentGraph;
  readonly agents: ClimbingAgents;
  readonly prompts: RunPrompts;
  readonly clock: Clock;
  readonly trace: Trace;
  /** An agent can begin though its precursors still write. */
  readonly onReady: (node: AgentNode) => void;
}

/** True for a run whose root starts on the first words of its precursors. */
export function isStaircase(graph: AgentGraph, input: Pick<RunInput, "root">): boolean {
  return isAskedFor(graph, input) && graph.staircase?.refusal === undefined;
}

/** The reason why a run that asks for a staircase has none, as the end of a sentence; undefined where it has, or does not ask. */
export function staircaseRefusal(graph: AgentGraph, input: Pick<RunInput, "root">): string | undefined {
  return isAskedFor(graph, input) ? graph.staircase?.refusal : undefined;
}

function isAskedFor({ staircase }: AgentGraph, { root }: Pick<RunInput, "root">): boolean {
  return staircase !== undefined && (root === undefined ? staircase.byDefault : root === "staircase");
}

/**
 * The staircase of one run: agents that start on the first words of their precursors, and go on as these grow. One whose
 * answer could not be gone on with waits for its precursors, which the trace says.
 */
export class RunStairs {
  readonly #options: RunStairsOptions;
  readonly #nodes = new Map<AgentNode, NodeStairs>();

  constructor(options: RunStairsOptions) {
    this.#options = options;
    const { graph } = options;
    for (const node of climbing(graph)) {
      const refusal = this.#refusal(node);
      if (refusal === undefined) {
        this.#nodes.set(node, this.#stairs(node));
        options.agents.letClimb(node);
      } else options.trace.add("staircase_off", { agent: node.id, data: { reason: refusal } });
    }
  }

  /** Looks from now on at what the precursors write. */
  start(): void {
    const { agents, onReady } = this.#options;
    for (const [node, stairs] of this.#nodes) {
      for (const agent of node.reads.flatMap((cluster) => cluster.agents)) {
        for (const { log } of agents.of(agent)) {
          log.subscribe((tokens) => {
            if (stairs.grew(tokens)) onReady(node);
          });
        }
      }
    }
  }

  /** An agent has ended, or was dropped: whoever waited for more of it need not. */
  ended(agent: AgentNode): void {
    for (const [node, stairs] of this.#nodes) {
      const reads = node.reads.some(({ agents }) => agents.includes(agent));
      if (reads && stairs.look()) this.#options.onReady(node);
    }
  }

  /** True for an agent that has begun though its precursors still write. */
  hasBegun(node: AgentNode): boolean {
    return this.#nodes.get(node)?.hasBegun === true;
  }

  /** The steps of one choice of an agent's answer. */
  steps(node: AgentNode, choice: number): AnswerSteps {
    const stairs = this.#nodes.get(node);
    if (stairs === undefined) throw new Error(`Agent ${node.id} waits for its precursors`);
    return stairs.steps(choice);
  }

  /** The precursors of an agent that has begun are done: its whole prompt is known. */
  finish(node: AgentNode, asked: Asked | Promise<Asked>): void {
    this.#nodes.get(node)?.finish(asked);
  }

  /** The parameters of an agent that reads nobody: its first words go ahead where agents wait for no more of it. */
  leafSampling(node: AgentNode, sampling: Sampling): Sampling {
    const readers = this.#options.graph.agents.filter(({ reads }) =>
      reads.some(({ agents }) => agents.includes(node))
    );
    const ahead = readers.length > 0 && readers.every((reader) => this.#nodes.has(reader))
      ? this.#ahead(node)
      : undefined;
    return ahead === undefined ? sampling : goingAhead(sampling, ahead);
  }

  #ahead(node: AgentNode): Ahead | undefined {
    const { graph: { staircase }, agents } = this.#options;
    const { capabilities } = agents.target(node).served.engine;
    return aheadOf(capabilities, {
      depth: depthOf(node),
      firstTokens: staircase?.settings.first_tokens ?? 0,
    });
  }

  #stairs(node: AgentNode): NodeStairs {
    const { graph: { staircase, slots }, agents, prompts, clock } = this.#options;
    if (staircase === undefined) throw new Error(`Agent ${node.id} has no staircase`);
    const target = agents.target(node);
    return new NodeStairs({
      settings: staircase.settings,
      slots,
      isInner: node !== soleRoot(this.#options.graph),
      precursors: () =>
        agents.precursors(node).map((precursor) => {
          const [call] = agents.of(nodeOf(node, precursor.agent));
          return { precursor, output: call?.log.text ?? "", tokens: call?.log.tokens ?? 0 };
        }),
      promptOf: async (answers) => await turnByTurn(clock, prompts.unspliced(target, answers)),
      sampling: target.sampling,
      ahead: this.#ahead(node),
      contextTokens: contextTokensOf(target.served) ?? Infinity,
    });
  }

  /** The reason why an agent's answer cannot be gone on with behind another prompt; undefined where it can. */
  #refusal(node: AgentNode): string | undefined {
    const { agents, prompts } = this.#options;
    const target = agents.target(node);
    return prompts.whyNotTokens(target) ??
      (target.served.engine.capabilities.returnsTokenIds
        ? whyNotGoneOn(target.sampling)
        : "the engine does not return the ids of its tokens");
  }
}

/** The agents that are to start before their precursors are done. */
function climbing(graph: AgentGraph): AgentNode[] {
  const root = soleRoot(graph);
  if (graph.staircase?.settings.climbs === "all") {
    return graph.agents.filter(({ reads }) => reads.length > 0);
  }
  return root === undefined || root.reads.length === 0 ? [] : [root];
}

/** Agents one behind the other before it. */
function depthOf(node: AgentNode): number {
  return node.reads.length === 0
    ? 0
    : 1 + Math.max(...node.reads.flatMap(({ agents }) => agents.map(depthOf)));
}

function nodeOf(reader: AgentNode, id: string): AgentNode {
  const found = reader.reads.flatMap(({ agents }) => agents).find((agent) => agent.id === id);
  if (found === undefined) throw new Error(`Agent ${reader.id} does not read ${id}`);
  return found;
}
