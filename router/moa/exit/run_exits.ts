import type { JsonObject } from "../../../base/json.ts";
import { leastAnswers } from "../../../cfgs/schema/early_exit.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { Cluster } from "./cluster.ts";
import { ClusterExit, type ConcludedExit } from "./cluster_exit.ts";
import { FeedWriter } from "./feed_writer.ts";
import { type Judgement, PairEvidence } from "./pair_evidence.ts";
import type { RunClusters } from "./run_clusters.ts";
import { RunVerdicts } from "./run_verdicts.ts";
import type { AgentNode, ClusterNode } from "../graph/graph_types.ts";
import type { ExitRecord } from "../record/run_record.ts";
import type { Trace } from "../record/trace.ts";
import type { AgentUsage } from "../record/usage.ts";
import type { RunCalls } from "../run/run_calls.ts";
import type { RunOptions } from "../run/run_options.ts";
import type { ClusterState, ExitDecision } from "../../../scorer/policy/exit_policy.ts";

/** What the early exits of a run need. */
export interface RunExitsOptions {
  readonly run: RunOptions;
  readonly trace: Trace;
  readonly calls: RunCalls;
  readonly clusters: RunClusters;
  /** What a cluster's members were asked. */
  readonly question: (node: ClusterNode) => string;
  /** A cluster shall not wait for its other members. */
  readonly exit: (cluster: Cluster, decision: ExitDecision) => void;
  /** No engine works for a verdict any more. */
  readonly onIdle: () => void;
  readonly onError: (error: unknown) => void;
}

/**
 * Early exit in one run: feeds the members' answers to the scorer while they are written, asks the policies after
 * each completion, and keeps what they decided. Nothing here delays a token, and nothing here can fail the run.
 */
export class RunExits {
  readonly #options: RunExitsOptions;
  readonly #exits = new Map<ClusterNode, ClusterExit>();
  readonly #verdicts: RunVerdicts;
  /** Agents whose answers are compared. */
  readonly #compared = new Set<AgentNode>();
  readonly #scored = new Set<AgentNode>();
  readonly #feeds = new Map<AgentNode, FeedWriter>();
  /** Closed clusters whose consensus is still asked for. */
  readonly #held = new Set<ClusterNode>();
  readonly #records: ExitRecord[] = [];

  /** Throws 400 `invalid_config` for settings that no policy can be made of. */
  constructor(options: RunExitsOptions) {
    this.#options = options;
    this.#verdicts = new RunVerdicts(options);
    const { graph, exitPolicies } = options.run;
    for (const node of graph.clusters) {
      const policy = node.agents.length > 1 ? exitPolicies.of(node.earlyExit) : undefined;
      if (policy === undefined) continue;
      if (policy.needs.similarity !== undefined) {
        for (const agent of node.agents) this.#compared.add(agent);
      }
      if (policy.needs.logprobs) { for (const agent of node.agents) this.#scored.add(agent); }
      const { clock, onError } = { ...options.run, ...options };
      this.#exits.set(
        node,
        new ClusterExit({ policy, evidence: this.#evidence(node, policy.needs.similarity), clock, onError }),
      );
    }
  }

  /** True while engines work for verdicts. */
  get busy(): boolean {
    return this.#verdicts.busy;
  }

  /** The decisions so far. */
  get records(): readonly ExitRecord[] {
    return this.#records;
  }

  /** Tokens of the verdicts. */
  usages(): AgentUsage[] {
    return this.#verdicts.usages();
  }

  /** Whether a policy looks at the log-probabilities of an agent's tokens. */
  wantsLogprobs(node: AgentNode): boolean {
    return this.#scored.has(node);
  }

  /** An agent has written more. */
  grew({ node, log }: AgentCall): void {
    if (!this.#compared.has(node)) return;
    this.#feed(node).grew(log.text, (output) => this.#options.calls.answerSoFar(node, output));
  }

  /** An agent's answer is whole; to be told before any cluster that it is a member of. */
  answered(node: AgentNode, answer: string): void {
    if (this.#compared.has(node)) this.#feed(node).end(answer);
  }

  /** Asks, right after a completion, whether the cluster shall wait for its other members. */
  consider(cluster: Cluster): void {
    const { node, answers } = cluster;
    const exit = this.#exits.get(node);
    if (exit === undefined) return;
    if (answers.length >= Math.max(leastAnswers(node.earlyExit), node.minResponses)) {
      exit.ask(this.#state(cluster), (concluded) => {
        this.#note(cluster, concluded);
        if (concluded.decision.exit) this.#options.exit(cluster, concluded.decision);
      });
    }
    const last = answers.at(-1);
    // When the last member answers nothing is asked any more, unless the root may be skipped.
    const asksAgain = cluster.unfinished.length > 1 || node.earlyExit.skip_root !== undefined;
    if (cluster.open && asksAgain && exit.policy.needs.verdicts && last !== undefined) {
      this.#verdicts.warm(node, last.text, exit.signal);
    }
  }

  /** Asks what a closed cluster's members agree on; `then` may come at once, and never comes after `abort`. */
  consensus(cluster: Cluster, then: (concluded: ConcludedExit) => void): boolean {
    const exit = this.#exits.get(cluster.node);
    if (exit === undefined) return false;
    this.#held.add(cluster.node);
    exit.ask(this.#state(cluster), (concluded) => {
      this.#held.delete(cluster.node);
      then(concluded);
      this.prune();
    });
    return true;
  }

  /** Clusters have closed, or are not needed any more: what is known of their answers is dropped. */
  prune(): void {
    for (const [node, exit] of this.#exits) {
      if (this.#options.clusters.of(node).open || this.#held.has(node)) continue;
      this.#exits.delete(node);
      exit.close(new Error(`Cluster ${node.id} has closed`));
    }
    this.#dropFeeds();
  }

  /** Ends everything; `busy` tells when the engines know. */
  abort(reason: unknown): void {
    for (const exit of this.#exits.values()) exit.close(reason);
    this.#exits.clear();
    this.#dropFeeds();
  }

  /** The figures that a decision was made on, for the trace. */
  figures({ decision, ms, late }: ConcludedExit, { node, answers }: Cluster): JsonObject {
    const { scorer } = this.#options.run.exitPolicies.services ?? {};
    const facts = this.#exits.get(node)?.policy.needs.similarity === undefined ? undefined : scorer?.facts;
    return {
      metric: node.earlyExit.metric,
      completions: answers.length,
      ...decision.numbers,
      ...(decision.consensus === undefined ? {} : { consensus: { ...decision.consensus } }),
      ...(facts === undefined
        ? {}
        : { scorer: { embedder: facts.embedder, model: facts.model ?? null, details: facts.details } }),
      ms: Math.round(ms * 1000) / 1000,
      ...(late ? { late } : {}),
    };
  }

  #note(cluster: Cluster, concluded: ConcludedExit): void {
    const { node, answers } = cluster;
    const { decision, ms, late } = concluded;
    const { trace } = this.#options;
    trace.add("exit_decided", {
      cluster: node.id,
      data: {
        exit: decision.exit,
        ...this.figures(concluded, cluster),
        ...(decision.exit ? { keep: [...decision.keep] } : {}),
      },
    });
    this.#records.push({
      cluster: node.id,
      metric: node.earlyExit.metric,
      atMs: trace.nowMs,
      completions: answers.length,
      exit: decision.exit,
      late,
      ms,
    });
  }

  #evidence(node: ClusterNode, metric: ClusterExit["policy"]["needs"]["similarity"]): PairEvidence {
    const { run, clusters } = this.#options;
    const services = run.exitPolicies.services;
    if (services === undefined) throw new Error("A policy without services");
    const answer = (completion: number) => clusters.of(node).answers[completion]!;
    return new PairEvidence({
      scorer: services.scorer,
      metric,
      deadlineMs: node.earlyExit.deadline_ms,
      clock: run.clock,
      answerId: (completion) => {
        const { agent } = answer(completion);
        return this.#feed(node.agents.find(({ id }) => id === agent)!).id;
      },
      judge: ([a, b], signal): Promise<Judgement> =>
        this.#verdicts.ask(node, [answer(a).text, answer(b).text], signal),
    });
  }

  #state(cluster: Cluster): ClusterState {
    const { run, calls, question } = this.#options;
    const { node, answers, open, unfinished } = cluster;
    return {
      runId: run.id,
      cluster: node.id,
      question: question(node),
      completions: answers.map(({ agent, text }) => {
        const member = node.agents.find(({ id }) => id === agent)!;
        const call = calls.of(member)[0];
        const logprobs = this.#scored.has(member) ? call?.log.logprobs ?? [] : [];
        return {
          agent,
          model: member.model,
          text,
          logprobs: logprobs.length === 0 ? undefined : logprobs.map(({ logprob }) => logprob),
          cut: call?.cut ?? false,
        };
      }),
      unfinished: open ? unfinished.map(({ id, model }) => ({ agent: id, model })) : [],
    };
  }

  #feed(node: AgentNode): FeedWriter {
    let feed = this.#feeds.get(node);
    if (feed === undefined) {
      const { run } = this.#options;
      const scorer = run.exitPolicies.services!.scorer;
      this.#feeds.set(node, feed = new FeedWriter(scorer, `${run.id}/${node.id}`));
    }
    return feed;
  }

  #dropFeeds(): void {
    for (const agent of this.#compared) {
      const needed = [...this.#exits].some(([node, { policy }]) =>
        policy.needs.similarity !== undefined && node.agents.includes(agent)
      );
      if (needed) continue;
      this.#compared.delete(agent);
      this.#feeds.get(agent)?.close();
      this.#feeds.delete(agent);
    }
  }
}
