import { CanopyError } from "../../../base/errors.ts";
import type { Turns } from "../../../base/turns.ts";
import type { FinishReason } from "../../engines/engine.ts";
import { AgentCall } from "../agent/agent_call.ts";
import type { AgentContext } from "../agent/agent_context.ts";
import { type AgentGraph, type AgentNode, answeringAgents, soleRoot } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import { mergeSampling, samplingOfChoice } from "../graph/sampling.ts";
import type { Precursor } from "../prompt/answer_layout.ts";
import type { AskedPrompt } from "../prompt/asked_prompt.ts";
import type { Refused } from "../prompt/prompt_layout.ts";
import type { PromptTarget, RunPrompts } from "../prompt/run_prompts.ts";
import type { SplicedPrompt } from "../prompt/spliced_prompt.ts";
import type { DrawnBy } from "../record/run_record.ts";
import type { ModelAccess } from "../warm/model_access.ts";
import type { WarmedAgents } from "../warm/run_warming.ts";
import type { Cluster } from "./cluster.ts";
import type { RunClusters } from "./run_clusters.ts";

/** Options of `RunCalls`. */
export interface RunCallsOptions {
  readonly graph: AgentGraph;
  readonly input: RunInput;
  readonly models: ReadonlyMap<string, ModelAccess>;
  readonly prompts: RunPrompts;
  readonly clusters: RunClusters;
  readonly context: AgentContext;
}

/** An agent with the model that serves it, and its parameters. */
export type CallTarget = ModelAccess & PromptTarget;

/** The engine calls of one run: one per agent, the root's one per choice. */
export class RunCalls implements WarmedAgents {
  readonly #options: RunCallsOptions;
  /** In the graph's order. */
  readonly #calls = new Map<AgentNode, readonly AgentCall[]>();
  readonly #targets = new Map<AgentNode, CallTarget>();
  readonly #saved = new Map<AgentCall, number>();
  readonly #climbing = new Set<AgentNode>();
  /** Occurs in no prompt. */
  readonly #spliceKey: string;

  /** Throws 500 `model_not_served`. */
  constructor(options: RunCallsOptions) {
    const { graph, input, context } = options;
    this.#options = options;
    this.#spliceKey = context.random.stream("splice").hex(32);
    // What must not be exceeded is not spent twice.
    const mayHedge = input.budget?.tokens === undefined && input.budget?.cost === undefined;
    for (const node of graph.agents) {
      const target = this.#makeTarget(node);
      const choices = node === soleRoot(graph) ? input.choices : 1;
      const hedgeControl = mayHedge ? target.hedgeControl : undefined;
      const makeCall = (_: unknown, choice: number) =>
        new AgentCall({ node, choice, model: target.served, hedgeControl, context });
      this.#targets.set(node, target);
      this.#calls.set(node, Array.from({ length: choices }, makeCall));
    }
  }

  /** One per choice; none in a graph without a root. */
  get ofRoot(): readonly AgentCall[] {
    const root = soleRoot(this.#options.graph);
    return root === undefined ? [] : this.of(root);
  }

  /** The calls of one agent. */
  of(node: AgentNode): readonly AgentCall[] {
    return this.#calls.get(node) ?? [];
  }

  all(): AgentCall[] {
    return [...this.#calls.values()].flat();
  }

  target(node: AgentNode): CallTarget {
    const target = this.#targets.get(node);
    if (target === undefined) throw new Error(`Agent ${node.id} is not one of the graph's`);
    return target;
  }

  /** Parameters of a call, the client's among them. */
  drawnBy({ node, choice }: AgentCall): DrawnBy {
    const { temperature, seed } = samplingOfChoice(this.target(node).sampling, choice);
    return { temperature, seed };
  }

  climbs(node: AgentNode): boolean {
    return this.#climbing.has(node);
  }

  /** Notes an agent that may begin to answer before its precursors are done. */
  letClimb(node: AgentNode): void {
    this.#climbing.add(node);
  }

  /** Makes what an agent's prompt needs before it is sent or grows. */
  prepare(node: AgentNode): Turns<void> {
    const { prompts, graph } = this.#options;
    const spliced = node.reads.length > 0 && graph.incrementalPrefill.mode !== "off";
    return prompts.prepare(this.target(node), spliced ? this.#spliceKey : undefined);
  }

  /** An agent's prompt that grows with what its precursors write. */
  growing(node: AgentNode): SplicedPrompt | AskedPrompt | Refused {
    const { prompts, graph: { slots } } = this.#options;
    return prompts.splice(this.target(node), {
      slots,
      precursors: () => this.precursors(node),
      key: this.#spliceKey,
    });
  }

  /** The state of the agents that one reads, in declared order. */
  precursors(reader: AgentNode): Precursor[] {
    return reader.reads.flatMap((read) => {
      const cluster = this.#options.clusters.of(read);
      return read.agents.map((agent) => this.#precursor(agent, cluster));
    });
  }

  /** Cancels a call because others make it needless, and estimates what that saves by the calls of its clusters. */
  spare(call: AgentCall, reason: unknown): void {
    const { graph } = this.#options;
    const fellows = call.node === soleRoot(graph)
      ? call.node.reads
      : graph.clusters.filter((cluster) => cluster.agents.includes(call.node));
    this.#spare(call, reason, fellows.flatMap(({ agents }) => agents.flatMap((agent) => this.of(agent))));
  }

  /** Ends all calls but those of one agent, whose text is enough; what that saves is estimated by all that are done. */
  spareOthers(agent: string, reason: unknown, finishReason: FinishReason = "stop"): void {
    const all = this.all();
    for (const call of all) if (call.node.id === agent) call.satisfy(finishReason);
    for (const call of all) this.#spare(call, reason, all);
  }

  #spare(call: AgentCall, reason: unknown, peers: readonly AgentCall[]): void {
    if (call.ended) return;
    call.cancel(reason);
    const saved = savedTokensEstimate({
      peers: peers.flatMap((peer) => peer.state === "done" ? [peer.usage()?.completionTokens ?? 0] : []),
      written: call.usage()?.completionTokens ?? 0,
      maxTokens: this.target(call.node).sampling.max_tokens,
    });
    this.#saved.set(call, saved);
  }

  /** Estimate of the tokens that a call was spared. */
  savedTokens(call: AgentCall): number {
    return this.#saved.get(call) ?? 0;
  }

  #makeTarget(node: AgentNode): CallTarget {
    const { graph, input, models } = this.#options;
    const model = models.get(node.model);
    if (model === undefined) {
      throw new CanopyError(`Agent ${node.id} needs model ${node.model}, which is not served`, {
        code: "model_not_served",
        status: 500,
      });
    }
    const sampling = answeringAgents(graph).includes(node)
      ? mergeSampling(node.sampling, input.rootSampling)
      : node.sampling;
    return { ...model, node, sampling };
  }

  #precursor(node: AgentNode, cluster: Cluster): Precursor {
    const agent = node.id;
    const completion = cluster.completions.find((answer) => answer.agent === agent);
    if (completion !== undefined) return { ...completion, state: "answered" };
    if (!cluster.awaits(node)) return { agent, state: "gone" };
    const [call] = this.of(node);
    return { agent, state: "writing", text: call?.answerSoFar ?? "", worker: call?.worker };
  }
}

/**
 * Estimate of the tokens that an agent was spared: what its peers that have finished wrote on average, less what it
 * had written itself, and no more than it was allowed. It is on the low side: who is still writing when others have
 * finished writes more than they did. 0 where no peer has finished.
 */
function savedTokensEstimate({ peers, written, maxTokens = Infinity }: {
  /** Tokens of the finished members of its clusters. */
  readonly peers: readonly number[];
  readonly written: number;
  readonly maxTokens: number | undefined;
}): number {
  if (peers.length === 0) return 0;
  const mean = peers.reduce((sum, tokens) => sum + tokens, 0) / peers.length;
  return Math.max(0, Math.round(Math.min(mean, maxTokens)) - written);
}
