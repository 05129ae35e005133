import type { CanopyError } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import { type AgentEvent, readAgents } from "../agent/agent_events.ts";
import type { AgentRequest } from "../agent/agent_types.ts";
import type { Cluster, ClusterStep, MemberFailure } from "../exit/cluster.ts";
import { RootSkip } from "../exit/root_skip.ts";
import { RunClusters } from "../exit/run_clusters.ts";
import { RunExits } from "../exit/run_exits.ts";
import type { AgentNode, ClusterNode } from "../graph/graph_types.ts";
import { answerText } from "../prompt/answer.ts";
import { checkContext } from "../prompt/context_budget.ts";
import { RunPrompts } from "../prompt/run_prompts.ts";
import type { RunRecord } from "../record/run_record.ts";
import type { Trace, TraceEvent } from "../record/trace.ts";
import { type RunUsage, runUsage } from "../record/usage.ts";
import {
  cancellation,
  clusterFailure,
  internalFailure,
  outputsFailure,
  rootFailure,
  runOverdue,
} from "./failure.ts";
import type { Run } from "./run.ts";
import { RunCalls } from "./run_calls.ts";
import type { RunOptions } from "./run_options.ts";
import { RunOutput } from "./run_output.ts";
import { runTrace } from "./run_trace.ts";
import { RunWarming } from "../warm/run_warming.ts";
import type { Consensus } from "../../../scorer/policy/exit_policy.ts";

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
  readonly #clusters: RunClusters;
  readonly #exits: RunExits;
  readonly #rootSkip: RootSkip;
  readonly #warming: RunWarming;
  readonly #deadline = new AbortController();
  readonly #resolveEnded: () => void;
  readonly #onClientGone = () => void this.cancel(this.#options.signal.reason);
  #state: RunRecord["state"] = "running";
  #error: CanopyError | undefined;
  #durationMs: number | undefined;
  #completions = 0;
  #rootSkipped = false;
  /** Calls at work on an engine, or about to be told to stop. */
  #active = 0;
  #hasEnded = false;

  /** Checks the request against the graph; `start` sets it going. Throws 400 when it cannot fit. */
  constructor(options: RunOptions) {
    const { graph, input, clock } = options;
    this.id = options.id;
    this.#options = options;
    this.#prompts = new RunPrompts(input.question);
    this.#trace = runTrace(clock, graph, input.choices);
    this.#clusters = new RunClusters(graph);
    this.#calls = new RunCalls({
      run: options,
      trace: this.#trace,
      prompts: this.#prompts,
      warming: () => this.#warming,
      exits: () => this.#exits,
      clusters: this.#clusters,
      forward: (index, event, signal) => this.output.push(index, event, signal),
    });
    for (const node of graph.agents) {
      const target = { node, sampling: this.#calls.sampling(node), served: this.#calls.model(node).served };
      checkContext(target, this.#prompts, input.question);
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
    this.#exits = new RunExits({
      run: options,
      trace: this.#trace,
      calls: this.#calls,
      clusters: this.#clusters,
      question: (node) => this.#prompts.questionTo(node),
      exit: (cluster, { keep, consensus }) => this.#apply(cluster.exit(keep), cluster, consensus),
      onIdle: () => this.#settle(),
      onError: (error) => this.#finish("failed", internalFailure(error)),
    });
    this.#rootSkip = new RootSkip({
      run: options,
      trace: this.#trace,
      calls: this.#calls,
      exits: this.#exits,
    });
    this.#startedAtUnixMs = clock.unixEpochMs + clock.now();
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
    const usages = this.#calls.all().map((call) => this.#calls.usageOf(call));
    return runUsage([...usages.filter((usage) => usage !== undefined), ...this.#exits.usages()]);
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
      exits: [...this.#exits.records],
      rootSkipped: this.#rootSkipped,
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
      const answer = {
        agent: node.id,
        text: answerText(call.log.text, this.#options.graph),
        sequence: ++this.#completions,
      };
      this.#exits.answered(node, answer.text);
      for (const cluster of this.#clusters.awaiting(node)) {
        this.#apply(cluster.answered(node, answer), cluster);
        if (cluster.open) this.#exits.consider(cluster);
      }
    } else if (call.state === "failed") {
      for (const cluster of this.#clusters.awaiting(node)) {
        this.#apply(cluster.failed(node, call.error), cluster);
      }
    }
    if (call.state === "done") this.#warming.measure(call);
    this.#warming.ended(node);
  }

  #onRootEnded(call: AgentCall): void {
    if (call.state === "failed") this.#finish("failed", rootFailure(call.node, call.error));
    else if (this.#rootIsDone()) this.#finish("done", undefined);
  }

  #rootIsDone(): boolean {
    return this.#rootSkipped ||
      (this.#calls.ofRoot.length > 0 && this.#calls.ofRoot.every((call) => call.state === "done"));
  }

  /** `consensus`: what the answers agree on, where an exit policy has told already. */
  #apply(step: ClusterStep, cluster: Cluster, consensus?: Consensus): void {
    if (this.#state !== "running" || step.kind === "waits") return;
    const { node, answers, completions } = cluster;
    if (step.kind === "failed") return this.#onClusterFailed(node, step.failures);
    const unread = answers.filter((answer) => !completions.includes(answer)).map(({ agent }) => agent);
    this.#trace.add("cluster_closed", {
      cluster: node.id,
      data: {
        answers: completions.map(({ agent }) => agent),
        dropped: step.dropped.map(({ id }) => id),
        ...(unread.length === 0 ? {} : { unread }),
      },
    });
    for (const agent of this.#clusters.idle(step.dropped)) {
      for (const call of this.#calls.of(agent)) {
        this.#calls.spare(call, new Error(`Cluster ${node.id} closed without it`));
      }
    }
    if (node === this.#options.graph.outputs) this.#finish("done", undefined);
    else {
      const launch = () => {
        for (const reader of this.#clusters.ready(node)) this.#launch(reader);
      };
      this.#rootSkip.decide(cluster, consensus, launch, (text, agent) => this.#answerWith(text, agent));
    }
    this.#exits.prune();
  }

  /** An answer of the last cluster is the run's: the root is not asked. */
  #answerWith(text: string, agent: string): void {
    this.#rootSkipped = true;
    for (const call of this.#calls.ofRoot) {
      this.#calls.spare(call, new Error(`Its precursors agree: the answer is that of ${agent}`));
    }
    this.output.say(0, text);
    this.#finish("done", undefined);
  }

  /** With a root the run cannot go on; without one the cluster's readers fail, and what works for nobody is stopped. */
  #onClusterFailed(node: ClusterNode, failures: readonly MemberFailure[]): void {
    const { root, outputs, agents } = this.#options.graph;
    if (root !== undefined) return this.#finish("failed", clusterFailure(node, failures));
    if (node === outputs) return this.#finish("failed", outputsFailure(node, failures));
    for (const agent of this.#clusters.abandon(node)) {
      for (const call of this.#calls.of(agent)) call.cancel(new Error(`Cluster ${node.id} failed`));
    }
    this.#exits.prune();
    for (const reader of agents) {
      if (!reader.reads.includes(node)) continue;
      for (const call of this.#calls.of(reader)) {
        call.fail(clusterFailure(node, failures));
        this.#onCallEnded(call);
      }
    }
  }

  #finish(state: "done" | "failed" | "cancelled", error: CanopyError | undefined): void {
    if (this.#state !== "running") return;
    this.#state = state;
    this.#error = error;
    this.#durationMs = this.#trace.nowMs;
    this.#deadline.abort();
    const over = error ?? new Error("The run is over");
    this.#warming.abort(over);
    this.#exits.abort(over);
    if (error === undefined) this.output.close();
    else {
      for (const call of this.#calls.all()) call.cancel(error);
      this.output.fail(error);
    }
    this.#settle();
  }

  /** The run has ended when it has come to its result and no engine works for it any more. */
  #settle(): void {
    if (this.#state === "running" || this.#active > 0 || this.#hasEnded) return;
    if (this.#warming.busy || this.#exits.busy) return;
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
