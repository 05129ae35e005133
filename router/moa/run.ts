import { type CanopyError, messageOf } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { AgentCall } from "./agent.ts";
import { readAgents } from "./agent_events.ts";
import type { AgentRequest } from "./agent_types.ts";
import { answerText } from "./answer.ts";
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
import type { AgentNode, ClusterNode } from "./graph_types.ts";
import { RunCalls } from "./run_calls.ts";
import type { RunOptions } from "./run_options.ts";
import { RunOutput } from "./run_output.ts";
import { RunPrompts } from "./run_prompts.ts";
import type { AgentEvent, Run, RunRecord, RunUsage, TraceEvent } from "./run_types.ts";
import { Trace } from "./trace.ts";
import { runUsage } from "./usage.ts";
import { eventsPerSuccessor, RunWarming } from "./warm_run.ts";

/** Trace events per call: one with every event of its life and a few retries has about ten. */
const eventsPerCall = 24;

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
  readonly #calls: RunCalls;
  readonly #clusters = new Map<ClusterNode, Cluster>();
  readonly #warming: RunWarming;
  readonly #deadline = new AbortController();
  readonly #resolveEnded: () => void;
  readonly #onClientGone = () => void this.cancel(this.#options.signal.reason);
  #state: RunRecord["state"] = "running";
  #error: CanopyError | undefined;
  #durationMs: number | undefined;
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
    const warmed = graph.incrementalPrefill.mode === "off"
      ? 0
      : graph.agents.filter((node) => node.reads.length > 0).length;
    const events = eventsPerCall * (graph.agents.length + input.choices) + eventsPerSuccessor * warmed;
    this.#trace = new Trace(clock, events);
    this.#calls = new RunCalls({
      run: options,
      trace: this.#trace,
      prompts: this.#prompts,
      warming: () => this.#warming,
      cluster: (node) => this.#cluster(node),
      forward: (index, event, signal) => this.output.push(index, event, signal),
    });
    for (const node of graph.agents) {
      checkContext(
        node,
        this.#calls.sampling(node),
        this.#calls.model(node).served,
        this.#prompts,
        input.question,
      );
    }
    this.#warming = new RunWarming({
      runId: this.id,
      graph,
      prompts: this.#prompts,
      key: options.random.stream("splice").hex(32),
      model: (node) => this.#calls.model(node),
      sampling: (node) => this.#calls.sampling(node),
      precursors: (node) => this.#calls.precursors(node),
      clock,
      trace: this.#trace,
      onIdle: () => this.#settle(),
    });
    this.#startedAtUnixMs = clock.unixEpochMs + clock.now();
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
      this.#calls.all().map((call) => this.#calls.usageOf(call)).filter((usage) => usage !== undefined),
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
      agents: this.#calls.all().map((call) => ({ ...call.record(), usage: this.#calls.usageOf(call) })),
      events: [...this.#trace.events],
    };
  }

  events(signal: AbortSignal): AsyncIterable<TraceEvent> {
    return this.#trace.read(signal);
  }

  satisfy(index: number): void {
    const call = this.#calls.ofRoot[index];
    if (call?.satisfy() === true) this.#onCallEnded(call);
  }

  cancel(reason: unknown): Promise<void> {
    this.#finish("cancelled", cancellation(reason));
    return this.ended;
  }

  agentEvents(signal: AbortSignal): AsyncIterable<AgentEvent> {
    return readAgents(this.#calls.all(), signal);
  }

  /** Starts an agent whose clusters are all closed. */
  #launch(node: AgentNode): void {
    if (this.#state !== "running") return;
    const calls = this.#calls.of(node);
    let request: AgentRequest;
    try {
      request = this.#calls.request(node);
    } catch (error) {
      for (const call of calls) {
        call.fail(error);
        this.#onCallEnded(call);
      }
      return;
    }
    for (const call of calls) {
      this.#active++;
      call.run(this.#calls.requestOf(request, call))
        .finally(() => {
          this.#active--;
          this.#warming.answered(call);
        })
        .then(() => this.#onCallEnded(call))
        .catch((error) => this.#finish("failed", internalFailure(error)))
        .then(() => this.#settle());
    }
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
    return this.#calls.ofRoot.length > 0 && this.#calls.ofRoot.every((call) => call.state === "done");
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
      for (const call of this.#calls.of(agent)) {
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
      for (const call of this.#calls.of(reader)) {
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
      for (const call of this.#calls.of(agent)) call.cancel(new Error(`Cluster ${node.id} failed`));
      for (const read of agent.reads) if (!this.#isRead(read)) this.#abandon(read);
    }
  }

  /** True while an agent that has not ended reads the cluster. */
  #isRead(node: ClusterNode): boolean {
    return this.#options.graph.agents.some((agent) =>
      agent.reads.includes(node) && this.#awaiting(agent).length > 0
    );
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
      for (const call of this.#calls.all()) call.cancel(error);
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
