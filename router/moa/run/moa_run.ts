import type { Clock } from "../../../base/clock.ts";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import { logger } from "../../../base/log.ts";
import { countingOnly } from "../../../cfgs/schema/early_exit.ts";
import type { Random } from "../../../base/random.ts";
import type { Span, Spans } from "../../tracing/spans.ts";
import { turnByTurn } from "../../../base/turns.ts";
import type { AgentCall, AgentRequest } from "../agent/agent_call.ts";
import { type AgentContext, agentRequestIds } from "../agent/agent_context.ts";
import { type AgentEvent, readAgents } from "../agent/agent_events.ts";
import { watchLoops } from "../agent/loops.ts";
import { OpenWork } from "../agent/open_work.ts";
import type { ExitPolicies } from "../exit/exit_policies.ts";
import type { PanelAnswer } from "../exit/panel.ts";
import { RootSkip } from "../exit/root_skip.ts";
import { bestAnswer, withinLimits } from "../exit/best_answer.ts";
import { AgreedRewrite, REWRITE_AGENT } from "../exit/agreed_rewrite.ts";
import { modelsBySize, smallestModel } from "../exit/model_sizes.ts";
import { type RunAgreement, RunConsensus } from "../exit/run_consensus.ts";
import { RunExits } from "../exit/run_exits.ts";
import { StagedStart, stagesOf } from "../exit/staged_start.ts";
import type { Sampling } from "../../engines/engine.ts";
import { type AgentGraph, type AgentNode, type ClusterNode, soleRoot } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import { segmentsOf } from "../graph/template.ts";
import { pythonStrip } from "../prompt/compat_moa_vllm.ts";
import { refuseMedia } from "../prompt/refuse_media.ts";
import { checkContext } from "../prompt/context_budget.ts";
import { RunPrompts } from "../prompt/run_prompts.ts";
import type { CutRecord, RecordedRequest, RunRecord } from "../record/run_record.ts";
import { endRunSpan } from "../record/run_spans.ts";
import type { Trace, TraceEvent } from "../record/trace.ts";
import { isStaircase, RunStairs, staircaseRefusal } from "../stairs/run_stairs.ts";
import type { RunUsage, Spent } from "../record/usage.ts";
import type { Answered, Cluster, ClusterStep, MemberFailure } from "./cluster.ts";
import type { Run } from "./run.ts";
import { RunCalls } from "./run_calls.ts";
import { RunClusters } from "./run_clusters.ts";
import {
  cancellation,
  clusterFailure,
  internalFailure,
  outputsFailure,
  rootFailure,
  runOverdue,
} from "./run_failures.ts";
import { RunBudget } from "./run_budget.ts";
import { RunOutput } from "./run_output.ts";
import { EngineError } from "../../worker/engine_error.ts";
import { type PromptedRequest, RunRequests } from "./run_requests.ts";
import { runTrace } from "./run_trace.ts";
import { RunUsages } from "./run_usages.ts";
import type { ModelAccess } from "../warm/model_access.ts";
import { RunWarming } from "../warm/run_warming.ts";
import type { Consensus } from "../../../scorer/policy/exit_policy.ts";

const log = logger("moa");

/** Fewer than most texts have, so that estimates of prompts are rather too long. */
const CHARACTERS_PER_TOKEN = 3;

/** Options of a `MoaRun`. */
export interface MoaRunOptions {
  readonly id: string;
  /** Its turn in the queues for places: of two runs, the one with the lower number comes first. */
  readonly arrival: number;
  readonly graph: AgentGraph;
  readonly input: RunInput;
  readonly models: ReadonlyMap<string, ModelAccess>;
  readonly exitPolicies: ExitPolicies;
  readonly clock: Clock;
  readonly random: Random;
  /** Traces of runs. */
  readonly spans?: Spans | undefined;
  /** The run's own, which it ends. */
  readonly span?: Span | undefined;
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal;
}

/**
 * One request on its way through a graph. Everything happens on the end of a call: it goes to the clusters that the
 * agent is a member of; a cluster that closes starts those of its readers that wait for no other one.
 */
export class MoaRun implements Run {
  readonly id: string;
  readonly output: RunOutput;
  readonly ended: Promise<void>;
  readonly #options: MoaRunOptions;
  readonly #trace: Trace;
  readonly #span: Span | undefined;
  readonly #startedAtUnixMs: number;
  readonly #drawSeed: string;
  readonly #prompts: RunPrompts;
  readonly #clusters: RunClusters;
  readonly #work = new OpenWork(() => this.#settle());
  readonly #calls: RunCalls;
  readonly #warming: RunWarming;
  readonly #requests: RunRequests;
  readonly #usages: RunUsages;
  readonly #exits: RunExits;
  readonly #rootSkip: RootSkip;
  /** Undefined where only clusters may end early. */
  readonly #consensus: RunConsensus | undefined;
  /** Undefined where all leaves start at once. */
  readonly #stages: StagedStart | undefined;
  readonly #context: AgentContext;
  /** Undefined where the request has none. */
  readonly #budget: RunBudget | undefined;
  /** Agents for which the budget had no room. */
  readonly #refused: AgentNode[] = [];
  /** The budget is spent, and nobody has said anything yet: the first answer is the run's. */
  #overdue = false;
  /** The last word is on its way to a slow reader. */
  #isEnding = false;
  /** Writes up what the agents agree on: nobody else works any more. */
  #rewrite: AgreedRewrite | undefined;
  /** Undefined where every agent waits for its precursors. */
  readonly #stairs: RunStairs | undefined;
  /** Agents whose votes could not matter any more. */
  readonly #cutRecords: CutRecord[] = [];
  readonly #deadline = new AbortController();
  readonly #resolveEnded: () => void;
  readonly #onClientGone = () => void this.cancel(this.#options.signal.reason);
  readonly #onInternalError = (error: unknown) => this.#finish("failed", internalFailure(error));
  #state: RunRecord["state"] = "running";
  #error: CanopyError | undefined;
  #durationMs: number | undefined;
  #completions = 0;
  #rootSkipped = false;
  #joined = false;
  /** The root's calls whose last word is out: until then the output stays open. */
  readonly #answeredRoots = new Set<AgentCall>();
  #hasEnded = false;
  /** Its prompts are made and counted in turns of the event loop, before any agent starts. */
  readonly #isLong: boolean;
  /** Prompts that are being counted in threads. */
  readonly #checks: Promise<void>[];

  /**
   * Checks the request against the graph; `start` sets it going. Throws 400 when it cannot fit; a long one fails with
   * that before any agent starts.
   */
  constructor(options: MoaRunOptions) {
    const { id, arrival, graph, input, models, exitPolicies, clock, random, spans, span } = options;
    this.id = id;
    this.#options = options;
    // MoA-vllm strips what a model says; where a client counts tokens, it gets them all.
    const strips = graph.compat === "moa-vllm" && input.rootLogprobs === undefined;
    this.output = new RunOutput(() => this.#leave(), strips);
    this.#startedAtUnixMs = clock.unixEpochMs + clock.now();
    ({ promise: this.ended, resolve: this.#resolveEnded } = Promise.withResolvers<void>());
    this.#drawSeed = String(input.rootSampling.seed ?? random.stream("draws").uint32());
    const trace = this.#trace = runTrace(clock, graph, input.choices);
    const headers = input.headers ?? {};
    this.#span = span;
    const context: AgentContext = this.#context = {
      runId: id,
      arrival,
      graph,
      clock,
      random,
      drawSeed: this.#drawSeed,
      trace,
      work: this.#work,
      spans,
      headers: span?.carriedBy(headers) ?? headers,
      nextRequestId: agentRequestIds(id),
    };
    const prompts = this.#prompts = new RunPrompts(input.question, graph.neutralisedTexts);
    const clusters = this.#clusters = new RunClusters(graph);
    this.#calls = new RunCalls({ graph, input, models, prompts, clusters, context });
    for (const node of graph.agents) refuseMedia(node, input.question);
    this.#isLong = graph.agents.some((node) => prompts.isLong(node));
    const checks = this.#isLong
      ? []
      : graph.agents.map((node) => checkContext(this.#calls.target(node), prompts));
    this.#checks = checks.filter((check) => check !== undefined);
    for (const check of this.#checks) check.catch(() => {});
    this.#stairs = isStaircase(graph, input) && input.budget === undefined
      ? new RunStairs({
        graph,
        agents: this.#calls,
        prompts,
        clock,
        trace,
        onReady: (node) => this.#launchInSteps(node),
      })
      : undefined;
    this.#warming = new RunWarming(graph, this.#calls, context);
    this.#exits = new RunExits({
      graph,
      policies: exitPolicies,
      panels: clusters.all(),
      calls: this.#calls.all(),
      models,
      prompts,
      context,
    });
    const sampling = graph.root === undefined ? {} : this.#calls.target(graph.root).sampling;
    this.#rootSkip = new RootSkip({ graph, input, sampling, trace, exits: this.#exits });
    this.#consensus = this.#makeConsensus(sampling);
    this.#requests = this.#makeRequests();
    this.#usages = this.#makeUsages();
    this.#stages = this.#makeStages();
    this.#budget = this.#makeBudget();
    if (graph.endLoops === true) this.#endLoops();
  }

  #endLoops(): void {
    for (const node of this.#leaves()) {
      if (node === soleRoot(this.#options.graph)) continue;
      for (const call of this.#calls.of(node)) watchLoops(call.log, (period) => call.endLoop(period));
    }
  }

  #makeRequests(): RunRequests {
    const { graph, input, models, clock } = this.#options;
    return new RunRequests({
      graph,
      input,
      find: (model) => models.get(model)?.served,
      calls: this.#calls,
      clusters: this.#clusters,
      prompts: this.#prompts,
      warming: this.#warming,
      output: this.output,
      trace: this.#trace,
      clock,
      leafSampling: (node, sampling) => this.#stairs?.leafSampling(node, sampling) ?? sampling,
      wantsLogprobs: (node) =>
        this.#exits.wantsLogprobs(node) || this.#consensus?.wantsLogprobs(node) === true,
    });
  }

  readonly #priceOf = (model: string) => this.#options.models.get(model)?.served.config.price;

  #makeUsages(): RunUsages {
    return new RunUsages({
      graph: this.#options.graph,
      calls: this.#calls,
      clusters: this.#clusters,
      prompts: this.#prompts,
      requests: this.#requests,
      warming: this.#warming,
      exits: this.#exits,
      rewrite: () => this.#rewrite?.usage(),
      priceOf: this.#priceOf,
    });
  }

  #makeBudget(): RunBudget | undefined {
    const { graph: { answerTokens = 512 }, input: { budget: limits }, clock } = this.#options;
    if (limits === undefined) return undefined;
    const budget = new RunBudget({
      limits,
      answerTokens,
      priceOf: this.#priceOf,
      usages: () => this.#usages.all(),
      clock,
      trace: this.#trace,
      isWritten: () => this.#rootHasWritten,
      onSpent: (limit) => this.#onSpent(limit),
    });
    for (const call of this.#calls.all()) call.log.subscribe(() => budget.check());
    return budget;
  }

  #makeStages(): StagedStart | undefined {
    const { graph: { runExit }, models, clock } = this.#options;
    if (runExit?.consensus.start !== "staged" || this.#consensus?.open !== true) return undefined;
    const bySize = modelsBySize([...models.values()].map(({ served }) => served));
    return new StagedStart({
      stages: stagesOf(this.#leaves(), bySize),
      stageMs: runExit.consensus.stage_ms,
      clock,
      trace: this.#trace,
      launch: (node) => {
        // A cluster of its own may have ended without it.
        const isDue = this.#calls.of(node).every(({ state }) => state === "waiting");
        if (isDue) this.#launch(node);
        return isDue;
      },
    });
  }

  #makeConsensus(sampling: Sampling): RunConsensus | undefined {
    const { graph, input, models, exitPolicies } = this.#options;
    const { root, joined, clusters } = graph;
    const counted = input.budget === undefined || exitPolicies.services === undefined
      ? undefined
      : countingOnly;
    const settings = graph.runExit ?? counted;
    const policy = settings && exitPolicies.ofRun(settings);
    const last = root?.reads[0] ?? clusters[0];
    if (settings === undefined || policy === undefined || joined !== undefined || last === undefined) {
      return undefined;
    }
    const consensus = new RunConsensus({
      graph,
      policy,
      settings,
      audit: exitPolicies.auditOf(settings, graph.name),
      drawSeed: this.#drawSeed,
      input,
      sampling,
      bySize: modelsBySize([...models.values()].map(({ served }) => served)),
      trace: this.#trace,
      question: () => this.#prompts.questionTo(last),
      onReached: (answer, agreement) => this.#agreed(answer, agreement),
    });
    for (const call of this.#calls.all()) consensus.follow(call);
    return consensus;
  }

  /** Starts the leaves. */
  start(): void {
    const { graph, input, clock, signal } = this.#options;
    const { effort } = graph;
    this.#trace.add("run_started", {
      data: { graph: graph.name, choices: input.choices, ...(effort === undefined ? {} : { effort }) },
    });
    const withBudget = isStaircase(graph, input) && input.budget !== undefined;
    const staircaseOff = withBudget ? "the request has a budget" : staircaseRefusal(graph, input);
    if (staircaseOff !== undefined) this.#trace.add("staircase_off", { data: { reason: staircaseOff } });
    if (signal.aborted) this.#onClientGone();
    else signal.addEventListener("abort", this.#onClientGone, { once: true });
    this.#budget?.start();
    if (graph.deadlineMs !== undefined) {
      clock.sleep(graph.deadlineMs, this.#deadline.signal).then(
        () => {
          if (this.#rewrite === undefined) this.#finish("failed", runOverdue(graph));
          else this.#rewrite.giveUp(runOverdue(graph));
        },
        () => {},
      );
    }
    if (this.#isLong) this.#beginLong().catch(this.#onInternalError);
    else if (this.#checks.length === 0) this.#begin();
    else this.#checked().then((fits) => fits && this.#begin()).catch(this.#onInternalError);
  }

  #begin(): void {
    this.#stairs?.start();
    if (this.#stages !== undefined) this.#stages.start();
    else for (const node of this.#leaves()) this.#launch(node);
    if (this.#state === "running") this.#warming.start();
  }

  async #beginLong(): Promise<void> {
    const { graph, clock } = this.#options;
    for (const node of graph.agents) {
      if (this.#state !== "running") return;
      try {
        await turnByTurn(clock, this.#calls.prepare(node));
        const check = checkContext(this.#calls.target(node), this.#prompts);
        if (check !== undefined) this.#checks.push(check);
        check?.catch(() => {});
      } catch (error) {
        this.#checks.push(Promise.reject(error));
        break;
      }
    }
    if (!await this.#checked()) return;
    this.#stairs?.start();
    if (this.#stages !== undefined) this.#stages.start();
    else {
      for (const node of this.#leaves()) {
        this.#launch(node);
        await clock.sleep(0);
      }
    }
    if (this.#state === "running") this.#warming.start();
  }

  /** False when a prompt does not fit: the run has failed with that. */
  async #checked(): Promise<boolean> {
    try {
      await Promise.all(this.#checks);
      return true;
    } catch (error) {
      this.#finish("failed", CanopyError.is(error) ? error : internalFailure(error));
      return false;
    }
  }

  #leaves(): AgentNode[] {
    return this.#options.graph.agents.filter(({ reads }) => reads.length === 0);
  }

  usage(): RunUsage {
    return this.#usages.whole(this.#budget?.spent(this.#durationMs ?? this.#trace.nowMs));
  }

  record(): RunRecord {
    return {
      id: this.id,
      owner: this.#options.input.owner,
      requestId: this.#options.input.headers?.["x-request-id"],
      graph: this.#options.graph.name,
      graphHash: this.#options.graph.hash,
      request: this.#request,
      effort: this.#options.graph.effort,
      state: this.#state,
      startedAtUnixMs: this.#startedAtUnixMs,
      durationMs: this.#durationMs,
      error: this.#error === undefined ? undefined : { message: this.#error.message, code: this.#error.code },
      usage: this.usage(),
      agents: this.#calls.all().map((call) => ({
        ...call.record(),
        sampling: this.#calls.drawnBy(call),
        usage: this.#usages.of(call),
      })),
      drawSeed: this.#drawSeed,
      exits: [...this.#exits.records, ...this.#consensus?.records ?? []],
      audit: this.#consensus?.audit,
      cuts: this.#cutRecords.length === 0 ? undefined : [...this.#cutRecords],
      rewrite: this.#rewrite?.record,
      rootSkipped: this.#rootSkipped,
      events: [...this.#trace.events],
    };
  }

  get #request(): RecordedRequest | undefined {
    const { asked, rootSampling: { seed } } = this.#options.input;
    return asked && { ...asked, seed };
  }

  events(signal: AbortSignal): AsyncIterable<TraceEvent> {
    return this.#trace.read(signal);
  }

  satisfy(index: number): void {
    this.#rewrite?.satisfy();
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
    if (!this.#isOpen) return;
    if (!this.#fitsBudget(node)) {
      this.#refused.push(node);
      return this.#endIfStarved();
    }
    const calls = this.#calls.of(node);
    let request: PromptedRequest;
    try {
      request = this.#requests.of(node);
    } catch (error) {
      for (const call of calls) {
        call.fail(error);
        this.#onCallEnded(call);
      }
      return;
    }
    for (const call of calls) {
      const running = node === soleRoot(this.#options.graph) ? this.#requests.ofRoot(request, call) : request;
      call.run(running).then(() => this.#onCallEnded(call)).catch(this.#onInternalError);
    }
  }

  /** Starts an agent whose precursors still write. */
  #launchInSteps(node: AgentNode): void {
    const stairs = this.#stairs;
    if (this.#state !== "running" || stairs === undefined) return;
    const isRoot = node === soleRoot(this.#options.graph);
    for (const call of this.#calls.of(node)) {
      const request: AgentRequest = {
        asked: stairs.steps(node, call.choice),
        stickyKey: this.#warming.stepKey(node),
        logprobs: isRoot ? this.#options.input.rootLogprobs : undefined,
        sink: isRoot ? this.#requests.sink(call) : undefined,
      };
      call.run(request).then(() => this.#onCallEnded(call)).catch(this.#onInternalError);
    }
  }

  /** All that a reader of a cluster that has closed needs is there: it starts, or takes its last step. */
  #launchReader(node: AgentNode): void {
    if (this.#state !== "running" || this.#stairs?.hasBegun(node) !== true) return this.#launch(node);
    try {
      const { asked } = this.#requests.of(node);
      this.#stairs.finish(node, asked);
    } catch (error) {
      this.#stairs.finish(node, Promise.reject(error));
    }
  }

  #onCallEnded(call: AgentCall): void {
    const { node } = call;
    this.#warming.answered(node);
    this.#budget?.ended(node.id);
    if (!this.#isOpen) return;
    if (call.state === "failed") this.#warn(call);
    this.#consensus?.ended(call);
    if (!this.#isOpen) return;
    if (this.#overdue && call.state === "done" && this.#endWithBest()) return;
    if (node === soleRoot(this.#options.graph)) this.#onRootEnded(call);
    else if (call.state === "done") this.#onAnswer(call);
    else if (call.state === "failed") {
      for (const cluster of this.#clusters.awaiting(node)) {
        this.#apply(cluster.failed(node, call.error), cluster);
      }
    }
    if (this.#consensus?.open === true) this.#stages?.ended(node);
    else this.#stages?.startAll();
    if (call.state === "done") this.#warming.measure(call);
    this.#warming.ended(node);
    this.#stairs?.ended(node);
    this.#cutNeedless();
    this.#endIfStarved();
  }

  /** Ends members of clusters whose votes cannot matter any more. */
  #cutNeedless(): void {
    if (!this.#isOpen) return;
    for (const { node, figures } of this.#consensus?.decided(this.#clusters.all(), this.#calls.all()) ?? []) {
      const cluster = this.#clusters.of(node);
      const reason = new Error(`Its vote could not matter: ${node.id} is decided without it`);
      this.#apply(cluster.exit(cluster.answers.map(({ agent }) => agent)), cluster, { reason });
      for (const call of this.#calls.all().filter(({ error }) => error === reason)) {
        const savedTokens = this.#calls.savedTokens(call);
        this.#cutRecords.push({ agent: call.id, cluster: node.id, atMs: this.#trace.nowMs, savedTokens });
        const data = { reason: "its vote could not matter", saved_tokens: savedTokens, ...figures };
        this.#trace.add("agent_cut", { agent: call.id, cluster: node.id, data });
      }
    }
  }

  #warn({ id: agent, node: { model }, worker, error }: AgentCall): void {
    log.warning("Agent {agent} ({model}) of {graph} failed: {error}", {
      agent,
      model,
      graph: this.#options.graph.name,
      run: this.id,
      worker,
      url: error instanceof EngineError ? error.workerUrl : undefined,
      error: messageOf(error),
    });
  }

  #onAnswer(call: AgentCall): void {
    const { node, log, answer: text, cut } = call;
    const answer: Answered = {
      agent: node.id,
      model: node.model,
      text,
      logprobs: log.logprobs.length === 0 ? undefined : log.logprobs.map(({ logprob }) => logprob),
      cut,
      tokens: call.usage()?.completionTokens ?? 0,
      sequence: ++this.#completions,
    };
    this.#exits.answered(node, text);
    for (const cluster of this.#clusters.awaiting(node)) {
      this.#apply(cluster.answered(node, answer), cluster);
      if (!cluster.open) continue;
      this.#exits.consider(
        cluster,
        ({ keep, consensus }) => this.#apply(cluster.exit(keep), cluster, { consensus }),
      )?.catch(this.#onInternalError);
    }
  }

  #onRootEnded(call: AgentCall): void {
    if (call.state === "failed") this.#finish("failed", rootFailure(call.node, call.error));
    else {
      this.#answeredRoots.add(call);
      const { ofRoot } = this.#calls;
      if (this.#rootIsDone() && ofRoot.every((one) => this.#answeredRoots.has(one))) {
        // One that began early may have met a stop while others still wrote.
        if (this.#stairs !== undefined) {
          this.#calls.spareOthers(call.node.id, new Error("The root's answer is whole"));
        }
        this.#finish("done", undefined);
      }
    }
  }

  #rootIsDone(): boolean {
    return this.#rootSkipped || this.#joined || this.#rootHasWritten;
  }

  get #rootHasWritten(): boolean {
    const { ofRoot } = this.#calls;
    return ofRoot.length > 0 && ofRoot.every((call) => call.state === "done");
  }

  /** `consensus`: what the answers agree on, where an exit policy has told already; `reason`: why members are ended. */
  #apply(
    step: ClusterStep,
    cluster: Cluster,
    { consensus, reason }: { consensus?: Consensus | undefined; reason?: Error } = {},
  ): void {
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
        this.#calls.spare(call, reason ?? new Error(`Cluster ${node.id} closed without it`));
      }
    }
    if (node === this.#options.graph.outputs) this.#finish("done", undefined);
    else if (node === this.#options.graph.joined) this.#answerWithAll(cluster);
    else {
      this.#rootSkip.decide(cluster, consensus, (answer) => {
        if (answer !== undefined) this.#answerWith(answer);
        else for (const reader of this.#clusters.ready(node)) this.#launchReader(reader);
      })?.catch(this.#onInternalError);
    }
    this.#exits.prune();
  }

  /** True while agents work: the answer is not settled. */
  get #isOpen(): boolean {
    return this.#state === "running" && this.#rewrite === undefined && !this.#isEnding;
  }

  #fitsBudget(node: AgentNode): boolean {
    if (this.#budget === undefined) return true;
    const answers = this.#clusters.answersFor(node);
    const own = segmentsOf(node.template).map((part) => part.kind === "literal" ? part.text.length : 0);
    const read = [...own, ...answers.map(({ text }) => text.length)];
    const length = read.reduce((sum, one) => sum + one, this.#prompts.textLength(node));
    const { sampling } = this.#calls.target(node);
    return this.#budget.admits({
      id: node.id,
      model: node.model,
      promptTokens: Math.ceil(length / CHARACTERS_PER_TOKEN),
      maxTokens: sampling.max_tokens,
    });
  }

  /** The budget has no room for those that are left, and nobody is at work any more. */
  #endIfStarved(): void {
    if (!this.#isOpen || this.#refused.length === 0) return;
    const isBusy = this.#calls.all().some(({ state }) => state === "queued" || state === "running");
    if (!isBusy) this.#endWithBest();
  }

  /** A limit of the budget is reached: the run answers with what it has. */
  #onSpent(limit: NonNullable<Spent["endedBy"]>): void {
    if (this.#state !== "running" || this.#isEnding) return;
    if (this.#rewrite !== undefined) return this.#rewrite.giveUp(new Error(`The budget's ${limit} is spent`));
    const [root] = this.#calls.ofRoot;
    if (root === undefined || root.log.text === "") this.#overdue = !this.#endWithBest();
    else this.#cutRoot(root);
  }

  /** False where nobody has said anything yet. */
  #endWithBest(): boolean {
    const { models, input } = this.#options;
    const best = bestAnswer({
      agreed: this.#consensus?.leader(),
      calls: this.#calls.all(),
      bySize: modelsBySize([...models.values()].map(({ served }) => served)),
    });
    if (best === undefined) return false;
    const { agent, text, cut } = withinLimits(best, input.rootSampling);
    this.#noteSpent(agent, cut);
    this.#rootSkipped = agent !== this.#options.graph.root?.id;
    this.#isEnding = true;
    this.#calls.spareOthers(agent, new Error("The budget is spent"), cut ? "length" : "stop");
    this.output.say(0, text, cut ? "length" : "stop");
    this.#finish("done", undefined);
    return true;
  }

  /** The root's text ends where it is. */
  #cutRoot(root: AgentCall): void {
    const { id } = root.node;
    this.#noteSpent(id, true);
    this.#isEnding = true;
    this.#calls.spareOthers(id, new Error("The budget is spent"), "length");
    if (this.#options.input.whole === true) {
      this.output.say(0, root.log.text, "length");
      return this.#finish("done", undefined);
    }
    this.output.cut(0).then(() => this.#finish("done", undefined)).catch(this.#onInternalError);
  }

  #noteSpent(agent: string, cut: boolean): void {
    const { latencyMs, tokens, cost, endedBy } = this.#budget!.spent(this.#trace.nowMs);
    this.#trace.add("budget_spent", {
      agent,
      data: {
        limit: endedBy ?? null,
        cut,
        latency_ms: latencyMs,
        tokens,
        ...(cost === undefined ? {} : { cost }),
      },
    });
  }

  /** Enough agents agree: the answer is the text of one, or is written up from the texts of all. */
  #agreed(answer: PanelAnswer, agreement: RunAgreement): void {
    const { graph: { runExit, rewriteTemplate: template, agents }, input, models, clock } = this.#options;
    const served = [...models.values()].map((access) => access.served);
    const own = served.filter(({ name }) => agents.some(({ model }) => model === name));
    const named = runExit?.consensus.rewrite.model;
    const model = named === undefined ? smallestModel(own) : models.get(named)?.served;
    if (!this.#isOpen || runExit === undefined || template === undefined) return this.#answerWith(answer);
    if (model === undefined) {
      const reason = `model ${named} is not served`;
      this.#trace.add("rewrite_ended", { agent: REWRITE_AGENT, data: { given: "text", reason } });
      return this.#answerWith(answer);
    }
    const rewrite = this.#rewrite = new AgreedRewrite({
      settings: runExit.consensus.rewrite,
      template,
      model,
      context: this.#context,
      clock,
      prompts: this.#prompts,
      sampling: input.rootSampling,
      answer,
      agreement,
      sink: this.output.choice(0),
      whole: input.whole === true,
    });
    this.#rootSkipped = true;
    this.#stopAgents(new Error("The answer is settled"));
    this.#calls.spareOthers(answer.agent, othersAgree(answer.agent));
    rewrite.write().then(() => this.#finish("done", undefined)).catch(this.#onInternalError);
  }

  /** An agent's answer is the run's: neither the root nor anybody else is asked any more. */
  #answerWith({ text, agent }: PanelAnswer): void {
    if (this.#state !== "running") return;
    this.#rootSkipped = true;
    this.#calls.spareOthers(agent, othersAgree(agent));
    this.output.say(0, text);
    this.#finish("done", undefined);
  }

  /** The answers of the last layer, one after the other, are the run's. */
  #answerWithAll({ node, answers }: Cluster): void {
    this.#joined = true;
    const texts = node.agents.map(({ id }) => answers.find(({ agent }) => agent === id)?.text ?? "");
    this.output.say(0, texts.map(pythonStrip).join(""));
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
    this.#budget?.close();
    this.#stopAgents(error ?? new Error("The run is over"));
    if (error === undefined) this.output.close();
    else {
      this.#rewrite?.cancel(error);
      for (const call of this.#calls.all()) call.cancel(error);
      this.output.fail(error);
    }
    this.#settle();
  }

  /** Nothing is decided, warmed or begun any more. */
  #stopAgents(reason: Error): void {
    this.#consensus?.close();
    this.#stages?.close();
    this.#warming.abort(reason);
    this.#exits.abort(reason);
  }

  onRootTokens(onTokens: (index: number, tokens: number) => void): void {
    for (const { choice, log } of this.#calls.ofRoot) log.subscribe((tokens) => onTokens(choice, tokens));
  }

  /** The run has ended when it has come to its result and no engine works for it any more. */
  #settle(): void {
    if (this.#state === "running" || this.#work.busy || this.#hasEnded) return;
    this.#hasEnded = true;
    this.#options.signal.removeEventListener("abort", this.#onClientGone);
    const data: JsonObject = this.#error === undefined
      ? {}
      : { error: this.#error.message, code: this.#error.code };
    this.#trace.end(`run_${this.#state}`, data);
    if (this.#span !== undefined) endRunSpan(this.#span, { state: this.#state }, this.#error);
    this.#resolveEnded();
  }

  /** The reader stops: that cancels the run, unless its last word was out already. */
  #leave(): Promise<void> {
    const isOut = this.#rootIsDone() && (this.#rewrite === undefined || this.#state !== "running");
    return isOut ? this.ended : this.cancel(new Error("its output is not read any more"));
  }
}

function othersAgree(agent: string): Error {
  return new Error(`Others agree: the answer is that of ${agent}`);
}
