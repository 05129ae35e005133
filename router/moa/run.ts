import type { Clock } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import { AsyncQueue } from "../../base/queue.ts";
import type { Random } from "../../base/random.ts";
import type { Sampling } from "../engines/engine.ts";
import type { ServedModel } from "../services.ts";
import { AgentCall, type AgentRequest } from "./agent.ts";
import { Cluster, type ClusterStep } from "./cluster.ts";
import { checkContext } from "./context_budget.ts";
import { exitPolicyOf } from "./exit_policy.ts";
import { clusterFailure, rootFailure } from "./failure.ts";
import type { AgentNode, ClusterNode, Graph } from "./graph_types.ts";
import type { PlaceQueue } from "./place_queue.ts";
import type { Answer } from "./prompt.ts";
import { stripReasoning } from "./reasoning.ts";
import { RunPrompts } from "./run_prompts.ts";
import type { Run, RunEvent, RunInput, RunRecord, RunUsage, TraceEvent } from "./run_types.ts";
import { mergeSampling, samplingOfChoice } from "./sampling.ts";
import { Trace } from "./trace.ts";
import { runUsage } from "./usage.ts";

/** Events of the root that wait for the reader before the engines' streams are paused. */
const outputCapacity = 64;
/** Trace events per call: one with every event of its life and a few retries has about ten. */
const eventsPerCall = 24;

/** A model, and the line in front of its workers. */
export interface ModelAccess {
  readonly served: ServedModel;
  readonly places: PlaceQueue;
}

/** What a run needs. */
export interface RunOptions {
  readonly id: string;
  /** Of two runs that wait for the same workers, the one with the lower rank comes first. */
  readonly rank: number;
  readonly graph: Graph;
  readonly input: RunInput;
  readonly models: ReadonlyMap<string, ModelAccess>;
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
  readonly output: AsyncIterable<RunEvent>;
  readonly ended: Promise<void>;
  readonly #options: RunOptions;
  readonly #trace: Trace;
  readonly #startedAtUnixMs: number;
  readonly #prompts: RunPrompts;
  readonly #rootSampling: Sampling;
  /** By agent, in the graph's order; the root has one call per choice. */
  readonly #calls = new Map<AgentNode, readonly AgentCall[]>();
  readonly #clusters = new Map<ClusterNode, Cluster>();
  readonly #queue = new AsyncQueue<RunEvent>(outputCapacity);
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
    this.#rootSampling = mergeSampling(graph.root.sampling, input.rootSampling);
    for (const node of graph.agents) {
      checkContext(node, this.#sampling(node), this.#model(node).served, this.#prompts, input.question);
    }
    this.#trace = new Trace(clock, eventsPerCall * (graph.agents.length + input.choices));
    this.#startedAtUnixMs = clock.unixEpochMs + clock.now();
    for (const node of graph.agents) this.#calls.set(node, this.#makeCalls(node));
    for (const node of graph.clusters) {
      this.#clusters.set(node, new Cluster(node, this.id, exitPolicyOf(node.earlyExit)));
    }
    const ended = Promise.withResolvers<void>();
    this.ended = ended.promise;
    this.#resolveEnded = ended.resolve;
    this.output = { [Symbol.asyncIterator]: () => this.#reader() };
  }

  /** Starts the leaves. */
  start(): void {
    const { graph, input, clock, signal } = this.#options;
    this.#trace.add("run_started", { data: { graph: graph.name, choices: input.choices } });
    if (signal.aborted) this.#onClientGone();
    else signal.addEventListener("abort", this.#onClientGone, { once: true });
    if (graph.deadlineMs !== undefined) {
      clock.sleep(graph.deadlineMs, this.#deadline.signal).then(
        () => this.#fail(this.#overdueError()),
        () => {},
      );
    }
    for (const node of graph.agents) if (node.reads.length === 0) this.#launch(node);
  }

  usage(): RunUsage {
    return runUsage(this.#allCalls().map((call) => call.usage()).filter((usage) => usage !== undefined));
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
      agents: this.#allCalls().map((call) => call.record()),
      events: [...this.#trace.events],
    };
  }

  events(signal: AbortSignal): AsyncIterable<TraceEvent> {
    return this.#trace.read(signal);
  }

  cancel(reason: unknown): Promise<void> {
    this.#finish("cancelled", cancellation(reason));
    return this.ended;
  }

  #allCalls(): AgentCall[] {
    return [...this.#calls.values()].flat();
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
    const { served, places } = this.#model(node);
    const choices = node === graph.root ? input.choices : 1;
    return Array.from({ length: choices }, (_, choice) =>
      new AgentCall(node, choice, {
        model: served,
        places,
        rank,
        clock,
        random: random.stream(`${node.id}#${choice}`),
        trace: this.#trace,
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
      call.run(this.#ofChoice(request, call)).then(() => {
        this.#active--;
        this.#onCallEnded(call);
        this.#settle();
      });
    }
  }

  #request(node: AgentNode): AgentRequest {
    const { graph, input } = this.#options;
    const sampling = this.#sampling(node);
    return {
      prompt: this.#prompts.wire(node, this.#answersFor(node), this.#model(node).served, sampling),
      sampling,
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
      forward: (event, signal) => {
        if (event.type === "delta") return this.#queue.push({ type: "delta", index, delta: event }, signal);
        const { finishReason, stopReason } = event;
        const stop = stopReason === undefined ? {} : { stopReason };
        return this.#queue.push({ type: "end", index, finishReason, ...stop }, signal);
      },
    };
  }

  /** What an agent reads, in slot order. */
  #answersFor(node: AgentNode): Answer[] {
    const answers = node.reads.flatMap((read) => {
      const completions = this.#clusters.get(read)?.completions ?? [];
      const order = read.agents.map((agent) => agent.id);
      return [...completions].sort((a, b) => order.indexOf(a.agent) - order.indexOf(b.agent));
    });
    return this.#options.graph.slots === "declared"
      ? answers
      : answers.sort((a, b) => a.sequence - b.sequence);
  }

  /** What successors read of an agent's output. */
  #answerOf(call: AgentCall): string {
    const { compat, stripReasoning: strip } = this.#options.graph;
    if (compat === "moa-vllm") return call.log.text;
    return strip ? stripReasoning(call.log.text) : call.log.text.trim();
  }

  #onCallEnded(call: AgentCall): void {
    if (this.#state !== "running") return;
    const { node } = call;
    if (node === this.#options.graph.root) this.#onRootEnded(call);
    else if (call.state === "done") {
      const completion = { agent: node.id, text: this.#answerOf(call), sequence: ++this.#completions };
      this.#tellClusters(node, (cluster) => cluster.answered(completion));
    } else if (call.state === "failed") {
      this.#tellClusters(node, (cluster) => cluster.failed({ agent: node, error: call.error }));
    }
  }

  #onRootEnded(call: AgentCall): void {
    if (call.state === "failed") this.#fail(rootFailure(call.node, call.error));
    const calls = this.#calls.get(call.node) ?? [];
    if (calls.every((other) => other.state === "done")) this.#finish("done", undefined);
  }

  #tellClusters(node: AgentNode, tell: (cluster: Cluster) => ClusterStep): void {
    for (const cluster of this.#clusters.values()) {
      if (cluster.open && cluster.node.agents.includes(node)) this.#apply(tell(cluster), cluster);
    }
  }

  #apply(step: ClusterStep, cluster: Cluster): void {
    const { node } = cluster;
    if (step.kind === "failed") return this.#fail(clusterFailure(node, step.failures));
    if (step.decision !== undefined) {
      const data = { exit: step.decision.exit, ...step.decision.numbers };
      this.#trace.add("exit_decided", { cluster: node.id, data });
    }
    if (step.kind === "waits") return;
    const answers = cluster.completions.map((completion) => completion.agent);
    this.#trace.add("cluster_closed", { cluster: node.id, data: { answers, dropped: [...step.dropped] } });
    for (const dropped of node.agents) if (step.dropped.includes(dropped.id)) this.#drop(dropped, node);
    for (const reader of this.#options.graph.agents) {
      if (reader.reads.includes(node) && reader.reads.every((read) => !this.#isOpen(read))) {
        this.#launch(reader);
      }
    }
  }

  /** Stops an agent that no cluster waits for any more. */
  #drop(agent: AgentNode, by: ClusterNode): void {
    for (const cluster of this.#clusters.values()) {
      if (cluster.open && cluster.node.agents.includes(agent)) return;
    }
    for (const call of this.#calls.get(agent) ?? []) {
      call.cancel(new Error(`Cluster ${by.id} closed without it`));
    }
  }

  #isOpen(node: ClusterNode): boolean {
    return this.#clusters.get(node)?.open ?? false;
  }

  #fail(error: CanopyError): void {
    this.#finish("failed", error);
  }

  #finish(state: "done" | "failed" | "cancelled", error: CanopyError | undefined): void {
    if (this.#state !== "running") return;
    this.#state = state;
    this.#error = error;
    this.#durationMs = this.#trace.nowMs;
    this.#deadline.abort();
    if (error === undefined) this.#queue.close();
    else {
      for (const call of this.#allCalls()) call.cancel(error);
      this.#queue.fail(error);
    }
    this.#settle();
  }

  /** The run has ended when it has come to its result and no engine works for it any more. */
  #settle(): void {
    if (this.#state === "running" || this.#active > 0 || this.#hasEnded) return;
    this.#hasEnded = true;
    this.#options.signal.removeEventListener("abort", this.#onClientGone);
    const data: JsonObject = this.#error === undefined
      ? {}
      : { error: this.#error.message, code: this.#error.code };
    this.#trace.end(`run_${this.#state}`, data);
    this.#resolveEnded();
  }

  /** Reads the output; leaving early cancels the run, unless its last word is out already. */
  #reader(): AsyncIterator<RunEvent> {
    return {
      next: () => this.#queue.next(),
      return: async () => {
        const calls = this.#calls.get(this.#options.graph.root) ?? [];
        if (!calls.every((call) => call.state === "done")) {
          this.#finish("cancelled", cancellation(new Error("its output is not read any more")));
        }
        this.#queue.cancel();
        await this.ended;
        return { done: true, value: undefined };
      },
    };
  }

  #overdueError(): CanopyError {
    const { graph } = this.#options;
    return new CanopyError(
      `The run of ${graph.name} took longer than its deadline of ${graph.deadlineMs} ms`,
      {
        code: "deadline_exceeded",
        status: 504,
      },
    );
  }
}

function cancellation(reason: unknown): CanopyError {
  if (CanopyError.is(reason)) return reason;
  return new CanopyError(`The run was cancelled: ${messageOf(reason)}`, {
    code: "cancelled",
    status: 499,
    cause: reason,
  });
}
