import type { Clock } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Random } from "../../base/random.ts";
import type { Sampling } from "../engines/engine.ts";
import type { ServedModel } from "../services.ts";
import { AgentCall, type AgentRequest } from "./agent.ts";
import { readAgents } from "./agent_events.ts";
import { answersInSlotOrder, answerText } from "./answer.ts";
import { Cluster, type ClusterStep, type MemberFailure } from "./cluster.ts";
import { checkContext } from "./context_budget.ts";
import type { ClusterState, ExitDecision, ExitPolicy } from "./exit_policy.ts";
import {
  cancellation,
  clusterFailure,
  internalFailure,
  outputsFailure,
  rootFailure,
  runOverdue,
} from "./failure.ts";
import type { AgentGraph, AgentNode, ClusterNode } from "./graph_types.ts";
import type { PlaceQueue } from "../pool/place_queue.ts";
import { RunOutput } from "./run_output.ts";
import { RunPrompts } from "./run_prompts.ts";
import type { AgentEvent, AgentUsage, Run, RunInput, RunRecord, RunUsage, TraceEvent } from "./run_types.ts";
import { mergeSampling, samplingOfChoice } from "./sampling.ts";
import { Trace } from "./trace.ts";
import { runUsage, withWarmTokens } from "./usage.ts";
import { answerSoFar, opensReasoning, type Precursor } from "./splice_answers.ts";
import type { WarmControl } from "./warm_control.ts";
import { eventsPerSuccessor, RunWarming } from "./warm_run.ts";

/** Trace events per call: one with every event of its life and a few retries has about ten. */
const eventsPerCall = 24;

/** A model, and the line in front of its workers. */
export interface ModelAccess {
  readonly served: ServedModel;
  readonly places: PlaceQueue;
  readonly warming: WarmControl;
}

/** What a run needs. */
export interface RunOptions {
  readonly id: string;
  /** Of two runs that wait for the same workers, the one with the lower rank comes first. */
  readonly rank: number;
  readonly graph: AgentGraph;
  readonly input: RunInput;
  readonly models: ReadonlyMap<string, ModelAccess>;
  readonly exitPolicyOf: (settings: ClusterNode["earlyExit"]) => ExitPolicy | undefined;
  readonly clock: Clock;
  readonly random: Random;
  /** The client has gone. */
  readonly signal: AbortSignal;
}

/**
 * One request on its way through a graph. Everything happens on the end of a call: it goes to the clusters that the
 * agent is a member of; a cluster that closes starts those of its readers that wait for no other one.
 */
export class MoaRun implements Run {
  readonly id: string;
  readonly output: RunOutput = new RunOutput(() => this.#leave());
  readonly ended: Promise<void>;
  readonly #options: RunOptions;
  readonly #trace: Trace;
  readonly #startedAtUnixMs: number;
  readonly #prompts: RunPrompts;
  readonly #rootSampling: Sampling;
  /** By agent, in the graph's order; the root has one call per choice. */
  readonly #calls = new Map<AgentNode, readonly AgentCall[]>();
  readonly #clusters = new Map<ClusterNode, Cluster>();
  readonly #warming: RunWarming;
  /** Agents whose prompts open a `<think>` block, so that their outputs begin with reasoning. */
  readonly #reasonFirst = new Set<AgentNode>();
  readonly #deadline = new AbortController();
  readonly #resolveEnded: () => void;
  readonly #onClientGone = () => void this.cancel(this.#options.signal.reason);
  #state: RunRecord["state"] = "running";
  #error: CanopyError | undefined;
  #durationMs: number | undefined;
  #requests = 0;
  #completions = 0;
  /** Calls at work on an engine, or about to be told to stop. */
  #active = 0;
  #hasEnded = false;

  /** Checks the request against the graph; `start` sets it going. Throws 400 when it cannot fit. */
  constructor(options: RunOptions) {
    const { graph, input, clock } = options;
    this.id = options.id;
    this.#options = options;
    this.#prompts = new RunPrompts(input.question);
    this.#rootSampling = mergeSampling(graph.root?.sampling ?? {}, input.rootSampling);
    for (const node of graph.agents) {
      checkContext(node, this.#sampling(node), this.#model(node).served, this.#prompts, input.question);
    }
    const warmed = graph.incrementalPrefill.mode === "off"
      ? 0
      : graph.agents.filter((node) => node.reads.length > 0).length;
    const events = eventsPerCall * (graph.agents.length + input.choices) + eventsPerSuccessor * warmed;
    this.#trace = new Trace(clock, events);
    this.#warming = new RunWarming({
      runId: this.id,
      graph,
      prompts: this.#prompts,
      key: options.random.stream("splice").hex(32),
      model: (node) => this.#model(node),
      sampling: (node) => this.#sampling(node),
      precursors: (node) => this.#precursors(node),
      clock,
      trace: this.#trace,
      onIdle: () => this.#settle(),
    });
    this.#startedAtUnixMs = clock.unixEpochMs + clock.now();
    for (const node of graph.agents) this.#calls.set(node, this.#makeCalls(node));
    for (const node of graph.clusters) this.#clusters.set(node, new Cluster(node));
    const ended = Promise.withResolvers<void>();
    this.ended = ended.promise;
    this.#resolveEnded = ended.resolve;
  }

  /** Starts the leaves. */
  start(): void {
    const { graph, input, clock, signal } = this.#options;
    this.#trace.add("run_started", { data: { graph: graph.name, choices: input.choices } });
    if (signal.aborted) this.#onClientGone();
    else signal.addEventListener("abort", this.#onClientGone, { once: true });
    if (graph.deadlineMs !== undefined) {
      clock.sleep(graph.deadlineMs, this.#deadline.signal).then(
        () => this.#finish("failed", runOverdue(graph)),
        () => {},
      );
    }
    for (const node of graph.agents) if (node.reads.length === 0) this.#launch(node);
    if (this.#state === "running") this.#warming.start();
  }

  usage(): RunUsage {
    return runUsage(
      this.#allCalls().map((call) => this.#usageOf(call)).filter((usage) => usage !== undefined),
    );
  }

  record(): RunRecord {
    return {
      id: this.id,
      graph: this.#options.graph.name,
      state: this.#state,
      startedAtUnixMs: this.#startedAtUnixMs,
      durationMs: this.#durationMs,
      error: this.#error === undefined ? undefined : { message: this.#error.message, code: this.#error.code },
      usage: this.usage(),
      agents: this.#allCalls().map((call) => ({ ...call.record(), usage: this.#usageOf(call) })),
      events: [...this.#trace.events],
    };
  }

  events(signal: AbortSignal): AsyncIterable<TraceEvent> {
    return this.#trace.read(signal);
  }

  satisfy(index: number): void {
    const call = this.#rootCalls[index];
    if (call?.satisfy() === true) this.#onCallEnded(call);
  }

  cancel(reason: unknown): Promise<void> {
    this.#finish("cancelled", cancellation(reason));
    return this.ended;
  }

  agentEvents(signal: AbortSignal): AsyncIterable<AgentEvent> {
    return readAgents(this.#allCalls(), signal);
  }

  /** One per choice; none in a graph without a root. */
  get #rootCalls(): readonly AgentCall[] {
    const { root } = this.#options.graph;
    return root === undefined ? [] : this.#calls.get(root) ?? [];
  }

  #allCalls(): AgentCall[] {
    return [...this.#calls.values()].flat();
  }

  /** What an agent's warms computed counts with its first choice. */
  #usageOf(call: AgentCall): AgentUsage | undefined {
    const warmTokens = call.choice === 0 ? this.#warming.computed(call.node) : 0;
    return withWarmTokens(call.usage(), warmTokens, call.node);
  }

  #model(node: AgentNode): ModelAccess {
    const model = this.#options.models.get(node.model);
    if (model !== undefined) return model;
    throw new CanopyError(`Agent ${node.id} needs model ${node.model}, which is not served`, {
      code: "model_not_served",
      status: 500,
    });
  }

  #sampling(node: AgentNode): Sampling {
    return node === this.#options.graph.root ? this.#rootSampling : node.sampling;
  }

  #makeCalls(node: AgentNode): AgentCall[] {
    const { graph, input, clock, random, rank } = this.#options;
    const { served, places, warming } = this.#model(node);
    const choices = node === graph.root ? input.choices : 1;
    return Array.from({ length: choices }, (_, choice) =>
      new AgentCall(node, choice, {
        model: served,
        places,
        rank,
        clock,
        random: random.stream(`${node.id}#${choice}`),
        trace: this.#trace,
        warming,
        started: (call) => this.#warming.answered(call),
        grew: (call, tokens) => this.#warming.grew(call.node, tokens),
        // Of fixed length, because SGLang aborts every request whose id begins with the given one.
        nextRequestId: () => `${this.id}-${String(++this.#requests).padStart(6, "0")}`,
      }));
  }

  /** Starts an agent whose clusters are all closed. */
  #launch(node: AgentNode): void {
    if (this.#state !== "running") return;
    const calls = this.#calls.get(node) ?? [];
    let request: AgentRequest;
    try {
      request = this.#request(node);
    } catch (error) {
      for (const call of calls) {
        call.fail(error);
        this.#onCallEnded(call);
      }
      return;
    }
    for (const call of calls) {
      this.#active++;
      call.run(this.#ofChoice(request, call))
        .finally(() => {
          this.#active--;
          this.#warming.answered(call);
        })
        .then(() => this.#onCallEnded(call))
        .catch((error) => this.#finish("failed", internalFailure(error)))
        .then(() => this.#settle());
    }
  }

  #request(node: AgentNode): AgentRequest {
    const { graph, input } = this.#options;
    const { served } = this.#model(node);
    const sampling = this.#sampling(node);
    const answers = answersInSlotOrder(node.reads.map((read) => this.#cluster(read)), graph.slots);
    const prompt = this.#prompts.wire(node, answers, served, sampling, this.#warming.close(node));
    if (graph.incrementalPrefill.mode !== "off" && opensReasoning(prompt, served.tokenizer)) {
      this.#reasonFirst.add(node);
    }
    const stickyKey = this.#warming.stickyKey(node);
    return {
      prompt,
      sampling,
      ...(stickyKey === undefined ? {} : { stickyKey }),
      ...(node !== graph.root || input.rootLogprobs === undefined ? {} : { logprobs: input.rootLogprobs }),
      ...(input.headers === undefined ? {} : { headers: input.headers }),
    };
  }

  /** The root's calls differ in their seeds and forward what they say to the client. */
  #ofChoice(request: AgentRequest, call: AgentCall): AgentRequest {
    if (call.node !== this.#options.graph.root) return request;
    const index = call.choice;
    return {
      ...request,
      sampling: samplingOfChoice(request.sampling, index),
      forward: (event, signal) => this.output.push(index, event, signal),
    };
  }

  #onCallEnded(call: AgentCall): void {
    if (this.#state !== "running") return;
    const { node } = call;
    if (node === this.#options.graph.root) this.#onRootEnded(call);
    else if (call.state === "done") {
      const completion = {
        agent: node.id,
        text: answerText(call.log.text, this.#options.graph),
        sequence: ++this.#completions,
      };
      for (const cluster of this.#awaiting(node)) {
        this.#apply(cluster.answered(node, completion), cluster);
        if (cluster.open) this.#consider(cluster);
      }
    } else if (call.state === "failed") {
      for (const cluster of this.#awaiting(node)) this.#apply(cluster.failed(node, call.error), cluster);
    }
    if (call.state === "done") this.#warming.measure(call);
    this.#warming.ended(node);
  }

  #onRootEnded(call: AgentCall): void {
    if (call.state === "failed") this.#finish("failed", rootFailure(call.node, call.error));
    else if (this.#rootIsDone()) this.#finish("done", undefined);
  }

  #rootIsDone(): boolean {
    return this.#rootCalls.length > 0 && this.#rootCalls.every((call) => call.state === "done");
  }

  /** The clusters that wait for an agent: in a layered graph one, in an explicit one perhaps several. */
  #awaiting(node: AgentNode): Cluster[] {
    return [...this.#clusters.values()].filter((cluster) => cluster.awaits(node));
  }

  /** Asks the exit policy, right after a completion, whether the cluster shall wait for its other members. */
  #consider(cluster: Cluster): void {
    const { node } = cluster;
    const policy = this.#options.exitPolicyOf(node.earlyExit);
    if (policy === undefined || cluster.completions.length < node.minResponses) return;
    const decision = decideSafely(policy, cluster.state(this.id));
    this.#trace.add("exit_decided", { cluster: node.id, data: { exit: decision.exit, ...decision.numbers } });
    if (decision.exit) this.#apply(cluster.exit(), cluster);
  }

  #apply(step: ClusterStep, { node, completions }: Cluster): void {
    if (step.kind === "waits") return;
    if (step.kind === "failed") return this.#onClusterFailed(node, step.failures);
    const answers = completions.map((completion) => completion.agent);
    const dropped = step.dropped.map((agent) => agent.id);
    this.#trace.add("cluster_closed", { cluster: node.id, data: { answers, dropped } });
    for (const agent of step.dropped) {
      // Another cluster may still wait for it.
      if (this.#awaiting(agent).length > 0) continue;
      for (const call of this.#calls.get(agent) ?? []) {
        call.cancel(new Error(`Cluster ${node.id} closed without it`));
      }
    }
    if (node === this.#options.graph.outputs) return this.#finish("done", undefined);
    for (const reader of this.#options.graph.agents) {
      if (reader.reads.includes(node) && reader.reads.every((read) => !this.#cluster(read).open)) {
        this.#launch(reader);
      }
    }
  }

  /** With a root the run cannot go on; without one the cluster's readers fail, and what works for nobody is stopped. */
  #onClusterFailed(node: ClusterNode, failures: readonly MemberFailure[]): void {
    const { root, outputs, agents } = this.#options.graph;
    if (root !== undefined) return this.#finish("failed", clusterFailure(node, failures));
    if (node === outputs) return this.#finish("failed", outputsFailure(node, failures));
    this.#abandon(node);
    for (const reader of agents) {
      if (!reader.reads.includes(node)) continue;
      for (const call of this.#calls.get(reader) ?? []) {
        call.fail(clusterFailure(node, failures));
        this.#onCallEnded(call);
      }
    }
  }

  /** Cancels the agents that work only for this cluster, and those that work only for them. */
  #abandon(node: ClusterNode): void {
    this.#cluster(node).abandon();
    for (const agent of node.agents) {
      if (this.#awaiting(agent).length > 0) continue;
      for (const call of this.#calls.get(agent) ?? []) call.cancel(new Error(`Cluster ${node.id} failed`));
      for (const read of agent.reads) if (!this.#isRead(read)) this.#abandon(read);
    }
  }

  /** True while an agent that has not ended reads the cluster. */
  #isRead(node: ClusterNode): boolean {
    return this.#options.graph.agents.some((agent) =>
      agent.reads.includes(node) && this.#awaiting(agent).length > 0
    );
  }

  /** What the agents that one reads have come to, in declared order. */
  #precursors(reader: AgentNode): Precursor[] {
    return reader.reads.flatMap((read) => {
      const cluster = this.#cluster(read);
      return read.agents.map((agent) => this.#precursor(agent, cluster));
    });
  }

  #precursor(node: AgentNode, cluster: Cluster): Precursor {
    const agent = node.id;
    const completion = cluster.completions.find((answer) => answer.agent === agent);
    if (completion !== undefined) return { ...completion, state: "answered" };
    if (!cluster.awaits(node)) return { agent, state: "gone" };
    const call = this.#calls.get(node)?.[0];
    // Reasoning that the engine has taken out itself is not in the text.
    const reasonsFirst = this.#reasonFirst.has(node) && call?.log.reasoning === "";
    const text = answerSoFar(call?.log.text ?? "", this.#options.graph, reasonsFirst);
    return { agent, state: "writing", text, worker: call?.worker };
  }

  #cluster(node: ClusterNode): Cluster {
    const cluster = this.#clusters.get(node);
    if (cluster === undefined) throw new Error(`Cluster ${node.id} is not one of the graph's`);
    return cluster;
  }

  #finish(state: "done" | "failed" | "cancelled", error: CanopyError | undefined): void {
    if (this.#state !== "running") return;
    this.#state = state;
    this.#error = error;
    this.#durationMs = this.#trace.nowMs;
    this.#deadline.abort();
    this.#warming.abort(error ?? new Error("The run is over"));
    if (error === undefined) this.output.close();
    else {
      for (const call of this.#allCalls()) call.cancel(error);
      this.output.fail(error);
    }
    this.#settle();
  }

  /** The run has ended when it has come to its result and no engine works for it any more. */
  #settle(): void {
    if (this.#state === "running" || this.#active > 0 || this.#warming.busy || this.#hasEnded) return;
    this.#hasEnded = true;
    this.#options.signal.removeEventListener("abort", this.#onClientGone);
    const data: JsonObject = this.#error === undefined
      ? {}
      : { error: this.#error.message, code: this.#error.code };
    this.#trace.end(`run_${this.#state}`, data);
    this.#resolveEnded();
  }

  /** The reader stops: that cancels the run, unless its last word was out already. */
  #leave(): Promise<void> {
    return this.#rootIsDone() ? this.ended : this.cancel(new Error("its output is not read any more"));
  }
}

/** A policy that fails must not be worse than none. */
function decideSafely(policy: ExitPolicy, state: ClusterState): ExitDecision {
  try {
    return policy.decide(state);
  } catch (error) {
    return { exit: false, numbers: { error: messageOf(error) } };
  }
}
