import { CanopyError } from "../../base/errors.ts";
import type { GenerateEvent, Sampling } from "../engines/engine.ts";
import { AgentCall } from "./agent.ts";
import type { AgentRequest } from "./agent_types.ts";
import { answersInSlotOrder } from "./answer.ts";
import type { Cluster } from "./cluster.ts";
import type { AgentNode, ClusterNode } from "./graph_types.ts";
import type { ModelAccess, RunOptions } from "./run_options.ts";
import type { RunPrompts } from "./run_prompts.ts";
import type { AgentUsage } from "./run_types.ts";
import { mergeSampling, samplingOfChoice } from "./sampling.ts";
import { answerSoFar, opensReasoning, type Precursor } from "./splice_answers.ts";
import type { Trace } from "./trace.ts";
import { withWarmTokens } from "./usage.ts";
import type { RunWarming } from "./warm_run.ts";

/** What the calls of a run need from it. */
export interface RunCallsOptions {
  readonly run: RunOptions;
  readonly trace: Trace;
  readonly prompts: RunPrompts;
  /** Asked when the first call starts, not before. */
  readonly warming: () => RunWarming;
  readonly cluster: (node: ClusterNode) => Cluster;
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
    const warmTokens = call.choice === 0 ? this.#options.warming().computed(call.node) : 0;
    return withWarmTokens(call.usage(), warmTokens, call.node);
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

  #make(node: AgentNode): AgentCall[] {
    const { trace, warming: ofRun } = this.#options;
    const { id, graph, input, clock, random, rank } = this.#options.run;
    const { served, places, warming } = this.model(node);
    const choices = node === graph.root ? input.choices : 1;
    return Array.from({ length: choices }, (_, choice) =>
      new AgentCall(node, choice, {
        model: served,
        places,
        rank,
        clock,
        random: random.stream(`${node.id}#${choice}`),
        trace,
        warming,
        started: (call) => ofRun().answered(call),
        grew: (call, tokens) => ofRun().grew(call.node, tokens),
        // Of fixed length, because SGLang aborts every request whose id begins with the given one.
        nextRequestId: () => `${id}-${String(++this.#requests).padStart(6, "0")}`,
      }));
  }

  /** What an agent is asked once its clusters are closed. Throws when its prompt cannot be made. */
  request(node: AgentNode): AgentRequest {
    const { prompts, cluster } = this.#options;
    const { graph, input } = this.#options.run;
    const { served } = this.model(node);
    const sampling = this.sampling(node);
    const warming = this.#options.warming();
    const answers = answersInSlotOrder(node.reads.map((read) => cluster(read)), graph.slots);
    const prompt = prompts.wire(node, answers, served, sampling, warming.close(node));
    if (graph.incrementalPrefill.mode !== "off" && opensReasoning(prompt, served.tokenizer)) {
      this.#reasonFirst.add(node);
    }
    const stickyKey = warming.stickyKey(node);
    return {
      prompt,
      sampling,
      ...(stickyKey === undefined ? {} : { stickyKey }),
      ...(node !== graph.root || input.rootLogprobs === undefined ? {} : { logprobs: input.rootLogprobs }),
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
      const cluster = this.#options.cluster(read);
      return read.agents.map((agent) => this.#precursor(agent, cluster));
    });
  }

  #precursor(node: AgentNode, cluster: Cluster): Precursor {
    const agent = node.id;
    const completion = cluster.completions.find((answer) => answer.agent === agent);
    if (completion !== undefined) return { ...completion, state: "answered" };
    if (!cluster.awaits(node)) return { agent, state: "gone" };
    const call = this.of(node)[0];
    // Reasoning that the engine has taken out itself is not in the text.
    const reasonsFirst = this.#reasonFirst.has(node) && call?.log.reasoning === "";
    const text = answerSoFar(call?.log.text ?? "", this.#options.run.graph, reasonsFirst);
    return { agent, state: "writing", text, worker: call?.worker };
  }
}
