import { CanopyError } from "../../../base/errors.ts";
import type { GenerateEvent, Sampling } from "../../engines/engine.ts";
import { AgentCall } from "../agent/agent_call.ts";
import type { AgentRequest } from "../agent/agent_types.ts";
import type { Cluster } from "../exit/cluster.ts";
import type { RunClusters } from "../exit/run_clusters.ts";
import type { RunExits } from "../exit/run_exits.ts";
import { savedTokensEstimate } from "../exit/saved_tokens.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import { mergeSampling, samplingOfChoice } from "../graph/sampling.ts";
import { answerSoFar, opensReasoning } from "../prompt/answer.ts";
import type { Precursor } from "../prompt/answer_layout.ts";
import type { RunPrompts } from "../prompt/run_prompts.ts";
import type { Trace } from "../record/trace.ts";
import { type AgentUsage, withSavedTokens, withWarmTokens } from "../record/usage.ts";
import { answersInSlotOrder } from "./answers_in_slot_order.ts";
import type { ModelAccess, RunOptions } from "./run_options.ts";
import type { RunWarming } from "../warm/run_warming.ts";

/** What the calls of a run need from it. */
export interface RunCallsOptions {
  readonly run: RunOptions;
  readonly trace: Trace;
  readonly prompts: RunPrompts;
  /** Asked when the first call starts, not before. */
  readonly warming: () => RunWarming;
  readonly exits: () => RunExits;
  readonly clusters: RunClusters;
  /** Takes what the root's choice `index` says to the client. */
  readonly forward: (index: number, event: GenerateEvent, signal: AbortSignal) => Promise<void>;
}

/** The engine calls of one run: one per agent, the root's one per choice; and what each of them is asked. */
export class RunCalls {
  readonly #options: RunCallsOptions;
  readonly #rootSampling: Sampling;
  /** In the graph's order. */
  readonly #calls = new Map<AgentNode, readonly AgentCall[]>();
  /** Agents whose prompts open a `<think>` block, so that their outputs begin with reasoning. */
  readonly #reasonFirst = new Set<AgentNode>();
  readonly #saved = new Map<AgentCall, number>();
  #requests = 0;

  constructor(options: RunCallsOptions) {
    const { graph, input } = options.run;
    this.#options = options;
    this.#rootSampling = mergeSampling(graph.root?.sampling ?? {}, input.rootSampling);
    for (const node of graph.agents) this.#calls.set(node, this.#make(node));
  }

  /** One per choice; none in a graph without a root. */
  get ofRoot(): readonly AgentCall[] {
    const { root } = this.#options.run.graph;
    return root === undefined ? [] : this.of(root);
  }

  /** The calls of one agent. */
  of(node: AgentNode): readonly AgentCall[] {
    return this.#calls.get(node) ?? [];
  }

  all(): AgentCall[] {
    return [...this.#calls.values()].flat();
  }

  /** A call's tokens; what its agent's warms computed counts with the first choice. */
  usageOf(call: AgentCall): AgentUsage | undefined {
    const { node } = call;
    const warmTokens = call.choice === 0 ? this.#options.warming().computed(node) : 0;
    const own = call.usage();
    const unread = call.state === "done" && this.#options.clusters.isUnread(node);
    const usage = own !== undefined && unread ? { ...own, wastedTokens: own.completionTokens } : own;
    return withSavedTokens(withWarmTokens(usage, warmTokens, node), this.#saved.get(call) ?? 0, node);
  }

  /** Cancels a call because others make it needless, and estimates what that saves. */
  spare(call: AgentCall, reason: unknown): void {
    if (call.ended) return;
    const { graph } = this.#options.run;
    const fellows = call.node === graph.root
      ? call.node.reads
      : graph.clusters.filter((cluster) => cluster.agents.includes(call.node));
    const peers = fellows.flatMap(({ agents }) => agents.flatMap((agent) => this.of(agent)));
    call.cancel(reason);
    this.#saved.set(
      call,
      savedTokensEstimate({
        peers: peers.flatMap((peer) => peer.state === "done" ? [peer.usage()?.completionTokens ?? 0] : []),
        written: call.usage()?.completionTokens ?? 0,
        maxTokens: this.sampling(call.node).max_tokens,
      }),
    );
  }

  /** The model that an agent is served by. Throws 500 `model_not_served`. */
  model(node: AgentNode): ModelAccess {
    const model = this.#options.run.models.get(node.model);
    if (model !== undefined) return model;
    throw new CanopyError(`Agent ${node.id} needs model ${node.model}, which is not served`, {
      code: "model_not_served",
      status: 500,
    });
  }

  /** An agent's parameters; the client's act on the root. */
  sampling(node: AgentNode): Sampling {
    return node === this.#options.run.graph.root ? this.#rootSampling : node.sampling;
  }

  /** A call that is none of the graph's: the `index`-th of this agent. */
  extra(node: AgentNode, index: number): AgentCall {
    return this.#call(node, index, () => {}, () => {});
  }

  #make(node: AgentNode): AgentCall[] {
    const { warming, exits } = this.#options;
    const { graph, input } = this.#options.run;
    const choices = node === graph.root ? input.choices : 1;
    const grew = (call: AgentCall, tokens: number) => {
      warming().grew(node, tokens);
      exits().grew(call);
    };
    return Array.from(
      { length: choices },
      (_, choice) => this.#call(node, choice, (call) => warming().answered(call), grew),
    );
  }

  #call(
    node: AgentNode,
    choice: number,
    started: (call: AgentCall) => void,
    grew: (call: AgentCall, tokens: number) => void,
  ): AgentCall {
    const { trace } = this.#options;
    const { id, clock, random, arrival } = this.#options.run;
    const { served } = this.model(node);
    return new AgentCall(node, choice, {
      model: served,
      arrival,
      clock,
      random: random.stream(`${node.id}#${choice}`),
      trace,
      started,
      grew,
      // Of fixed length, because SGLang aborts every request whose id begins with the given one.
      nextRequestId: () => `${id}-${String(++this.#requests).padStart(6, "0")}`,
    });
  }

  /** What an agent is asked once its clusters are closed. Throws when its prompt cannot be made. */
  request(node: AgentNode): AgentRequest {
    const { prompts, clusters, exits } = this.#options;
    const { graph, input } = this.#options.run;
    const { served } = this.model(node);
    const sampling = this.sampling(node);
    const warming = this.#options.warming();
    const answers = answersInSlotOrder(node.reads.map((read) => clusters.of(read)), graph.slots);
    warming.close(node);
    const prompt = prompts.wire({ node, served, sampling }, answers);
    if (opensReasoning(prompt, served.tokenizer)) this.#reasonFirst.add(node);
    const stickyKey = warming.stickyKey(node);
    const logprobs = node === graph.root ? input.rootLogprobs : undefined;
    const scored = exits().wantsLogprobs(node) && served.engine.capabilities.logprobs;
    return {
      prompt,
      sampling,
      ...(stickyKey === undefined ? {} : { stickyKey }),
      ...(logprobs === undefined ? {} : { logprobs }),
      ...(scored && logprobs === undefined ? { logprobs: 0, logprobsOptional: true } : {}),
      ...(input.headers === undefined ? {} : { headers: input.headers }),
    };
  }

  /** The root's calls differ in their seeds and forward what they say to the client. */
  requestOf(request: AgentRequest, call: AgentCall): AgentRequest {
    if (call.node !== this.#options.run.graph.root) return request;
    const index = call.choice;
    return {
      ...request,
      sampling: samplingOfChoice(request.sampling, index),
      forward: (event, signal) => this.#options.forward(index, event, signal),
    };
  }

  /** What the agents that one reads have come to, in declared order. */
  precursors(reader: AgentNode): Precursor[] {
    return reader.reads.flatMap((read) => {
      const cluster = this.#options.clusters.of(read);
      return read.agents.map((agent) => this.#precursor(agent, cluster));
    });
  }

  #precursor(node: AgentNode, cluster: Cluster): Precursor {
    const agent = node.id;
    const completion = cluster.completions.find((answer) => answer.agent === agent);
    if (completion !== undefined) return { ...completion, state: "answered" };
    if (!cluster.awaits(node)) return { agent, state: "gone" };
    const call = this.of(node)[0];
    const text = this.answerSoFar(node, call?.log.text ?? "");
    return { agent, state: "writing", text, worker: call?.worker };
  }

  /** What an agent's answer will certainly begin with. */
  answerSoFar(node: AgentNode, output: string): string {
    // Reasoning that the engine has taken out itself is not in the text.
    const reasonsFirst = this.#reasonFirst.has(node) && this.of(node)[0]?.log.reasoning === "";
    return answerSoFar(output, this.#options.run.graph, reasonsFirst);
  }
}
