import type { JsonObject } from "../../../base/json.ts";
import { leastAnswers } from "../../../cfgs/schema/early_exit.ts";
import type { Consensus, ExitDecision } from "../../../scorer/policy/exit_policy.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { AgentContext } from "../agent/agent_context.ts";
import type { AgentGraph, AgentNode, ClusterNode } from "../graph/graph_types.ts";
import type { RunPrompts } from "../prompt/run_prompts.ts";
import type { ExitRecord } from "../record/run_record.ts";
import type { AgentUsage } from "../record/usage.ts";
import type { ModelAccess } from "../warm/model_access.ts";
import { ClusterExit, type ConcludedExit } from "./cluster_exit.ts";
import type { ExitPolicies } from "./exit_policies.ts";
import { FeedWriter } from "./feed_writer.ts";
import { Judge } from "./judge.ts";
import type { Panel } from "./panel.ts";
import { smallestModel } from "./model_sizes.ts";

/** Options of `RunExits`. */
export interface RunExitsOptions {
  readonly graph: AgentGraph;
  readonly policies: ExitPolicies;
  /** One for each cluster of the graph. */
  readonly panels: readonly Panel[];
  /** The calls of the graph's agents; what they write goes to the scorer. */
  readonly calls: readonly AgentCall[];
  readonly models: ReadonlyMap<string, ModelAccess>;
  readonly prompts: RunPrompts;
  /** Headers to pass on to the engines. */
  readonly context: AgentContext;
}

/**
 * Early exit in one run: feeds the members' answers to the scorer while they are written, asks the policies after
 * each completion, and keeps what they decided. Nothing here delays a token, and nothing here can fail the run.
 */
export class RunExits {
  readonly #options: RunExitsOptions;
  /** Those of clusters that are open, or whose consensus is still asked for. */
  readonly #exits = new Map<ClusterNode, ClusterExit>();
  /** Feeds of the agents whose answers are compared, by agent id. */
  readonly #feeds = new Map<string, FeedWriter>();
  readonly #scored = new Set<AgentNode>();
  /** Closed clusters whose consensus is still asked for. */
  readonly #held = new Set<ClusterNode>();
  readonly #judges: Judge[] = [];
  readonly #records: ExitRecord[] = [];

  /** Throws 400 `invalid_config` for settings that no policy can be made of. */
  constructor(options: RunExitsOptions) {
    this.#options = options;
    for (const panel of options.panels) this.#add(panel);
    for (const call of options.calls) {
      if (!this.#feeds.has(call.node.id)) continue;
      call.log.subscribe(() => this.#feeds.get(call.node.id)?.grew(call.log.text, () => call.answerSoFar));
    }
  }

  /** The decisions so far. */
  get records(): readonly ExitRecord[] {
    return this.#records;
  }

  /** Tokens of the verdicts. */
  usages(): AgentUsage[] {
    return this.#judges.flatMap((judge) => judge.usages());
  }

  /** True when a policy looks at the log-probabilities of an agent's tokens. */
  wantsLogprobs(node: AgentNode): boolean {
    return this.#scored.has(node);
  }

  /** An agent's answer is whole; to be told before any cluster that it is a member of. */
  answered({ id }: AgentNode, answer: string): void {
    this.#feeds.get(id)?.end(answer);
  }

  /**
   * Asks, right after a completion, whether the cluster shall wait for its other members; `exit` is called if it shall
   * not, and never after `abort`. Until that is known there is a promise, which rejects with an error of `exit`.
   */
  consider(panel: Panel, exit: (decision: ExitDecision) => void): Promise<void> | undefined {
    const { node, answers } = panel;
    const asked = this.#exits.get(node);
    if (asked === undefined) return undefined;
    let asking: Promise<void> | undefined;
    if (answers.length >= Math.max(leastAnswers(node.earlyExit), node.minOnExit ?? node.minResponses)) {
      asking = asked.ask((concluded) => {
        this.#note(asked, concluded);
        if (concluded.decision.exit) exit(concluded.decision);
      });
    }
    // When the last member answers nothing is asked any more, unless the root may be skipped.
    const asksAgain = panel.unfinished.length > 1 || node.earlyExit.skip_root !== undefined;
    const warms = this.#options.graph.incrementalPrefill.mode !== "off";
    if (warms && panel.open && asksAgain && asked.policy.needs.verdicts) asked.warmJudge();
    return asking;
  }

  /** True when a policy decides on a cluster. */
  decidesOn({ node }: Panel): boolean {
    return this.#exits.has(node);
  }

  /**
   * Asks what a closed cluster's members agree on; `then` is called with the policy's answer and its figures for the
   * trace, at once or later, and never after `abort`. Until then there is a promise, which rejects with an error of
   * `then`.
   */
  consensus(
    { node }: Panel,
    then: (consensus: Consensus | undefined, figures: JsonObject) => void,
  ): Promise<void> | undefined {
    const exit = this.#exits.get(node);
    this.#held.add(node);
    return exit?.ask((concluded) => {
      this.#held.delete(node);
      then(concluded.decision.consensus, exit.figures(concluded));
      this.prune();
    });
  }

  /** Clusters have closed, or are not needed any more: what is known of their answers is dropped. */
  prune(): void {
    for (const [node, exit] of this.#exits) {
      if (exit.panel.open || this.#held.has(node)) continue;
      this.#exits.delete(node);
      exit.close(new Error(`Cluster ${node.id} has closed`));
    }
    this.#dropFeeds();
  }

  /** Ends everything. */
  abort(reason: unknown): void {
    for (const exit of this.#exits.values()) exit.close(reason);
    this.#exits.clear();
    this.#dropFeeds();
  }

  #add(panel: Panel): void {
    const { policies, prompts, context } = this.#options;
    const { node } = panel;
    const policy = node.agents.length > 1 ? policies.of(node.earlyExit) : undefined;
    const { services } = policies;
    if (policy === undefined || services === undefined) return;
    const question = () => prompts.questionTo(node);
    this.#exits.set(
      node,
      new ClusterExit({
        panel,
        policy,
        services,
        context,
        question,
        answerId: (agent) => this.#feeds.get(agent)?.id,
        judge: () => this.#makeJudge(node, question),
      }),
    );
    for (const agent of node.agents) {
      if (policy.needs.logprobs) this.#scored.add(agent);
      if (policy.needs.similarity === undefined || this.#feeds.has(agent.id)) continue;
      this.#feeds.set(agent.id, new FeedWriter(services.scorer, `${context.runId}/${agent.id}`));
    }
  }

  #makeJudge(node: ClusterNode, question: () => string): Judge | string {
    const { models, policies: { services }, context } = this.#options;
    const settings = node.earlyExit.verdict;
    const named = settings.model ?? smallestModel([...models.values()].map(({ served }) => served))?.name;
    const model = named === undefined ? undefined : models.get(named);
    if (model === undefined || services === undefined) return `there is no model ${named ?? "at all"}`;
    const id = `${node.id}.verdict`;
    const judge = new Judge({ id, model, settings, verdict: services.verdict, question, context });
    this.#judges.push(judge);
    return judge;
  }

  #note(exit: ClusterExit, concluded: ConcludedExit): void {
    const { node, answers } = exit.panel;
    const { decision, ms, late } = concluded;
    const { trace } = this.#options.context;
    trace.add("exit_decided", {
      cluster: node.id,
      data: {
        exit: decision.exit,
        ...exit.figures(concluded),
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

  /** Closes the feeds of agents that no policy will compare any more. */
  #dropFeeds(): void {
    for (const [agent, feed] of this.#feeds) {
      const needed = [...this.#exits.values()].some(({ panel, policy }) =>
        policy.needs.similarity !== undefined && panel.node.agents.some(({ id }) => id === agent)
      );
      if (needed) continue;
      this.#feeds.delete(agent);
      feed.close();
    }
  }
}
