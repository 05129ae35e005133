import type { PriceConfig } from "../../../cfgs/schema/config.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { RunExits } from "../exit/run_exits.ts";
import type { RunPrompts } from "../prompt/run_prompts.ts";
import { costOfTokens } from "../record/cost.ts";
import { type AgentUsage, type RunUsage, runUsage, type Spent, withExtraTokens } from "../record/usage.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { RunWarming } from "../warm/run_warming.ts";
import type { RunCalls } from "./run_calls.ts";
import type { RunClusters } from "./run_clusters.ts";
import { degradedBy } from "./run_failures.ts";
import type { RunRequests } from "./run_requests.ts";

/** Options of `RunUsages`. */
export interface RunUsagesOptions {
  readonly graph: AgentGraph;
  readonly calls: RunCalls;
  readonly clusters: RunClusters;
  readonly prompts: RunPrompts;
  readonly requests: RunRequests;
  readonly warming: RunWarming;
  readonly exits: RunExits;
  /** Of the one who writes up what the others agree on; undefined where nobody does. */
  readonly rewrite: () => AgentUsage | undefined;
  /** Undefined for a model without a price. */
  readonly priceOf: (model: string) => PriceConfig | undefined;
}

/** What engines have done for a run, in tokens. */
export class RunUsages {
  readonly #options: RunUsagesOptions;

  constructor(options: RunUsagesOptions) {
    this.#options = options;
  }

  /** Of the run; `spent`: what it has taken of its budget. */
  whole(spent: Spent | undefined): RunUsage {
    const { graph, calls } = this.#options;
    const degraded = degradedBy(graph, calls.all());
    return {
      ...runUsage(this.all()),
      ...(degraded === undefined ? {} : { degraded }),
      ...(spent === undefined ? {} : { spent }),
    };
  }

  /** Of everything that engines have done for the run. */
  all(): AgentUsage[] {
    const { calls, exits, rewrite } = this.#options;
    const written = rewrite();
    const usages = [
      ...calls.all().flatMap((call) => this.#partsOf(call)),
      ...written === undefined ? [] : [written],
    ];
    return [...usages, ...exits.usages()].map((usage) => {
      const price = this.#options.priceOf(usage.model);
      return price === undefined ? usage : { ...usage, cost: costOfTokens(price, usage) };
    });
  }

  /** A call's tokens, all models that worked for it together; undefined when there was nothing at all. */
  of(call: AgentCall): AgentUsage | undefined {
    return runUsage(this.#partsOf(call)).agents[0];
  }

  /** A call's tokens by model, the present one last; what its agent's warms computed counts with the first choice. */
  #partsOf(call: AgentCall): AgentUsage[] {
    const { calls, clusters, prompts, requests, warming } = this.#options;
    const { node } = call;
    const own = call.usage();
    const unread = call.state === "done" && clusters.isUnread(node);
    const usage = own !== undefined && unread ? { ...own, wastedTokens: own.completionTokens } : own;
    const isFirst = call.choice === 0;
    const isOwnModel = own === undefined || own.model === node.model;
    const warmTokens = isFirst ? warming.computed(node) : 0;
    const extra = {
      // Other choices find all that the first one has read.
      cutTokens: isFirst ? requests.cutTokens(node) : undefined,
      // Of several steps nobody says which of their cached tokens are the last one's; no other model was spliced for.
      splicedTokens: isFirst && isOwnModel && call.state === "done" && !calls.climbs(node)
        ? prompts.splicedTokens(node)
        : undefined,
      savedTokens: calls.savedTokens(call),
    };
    const parts = isOwnModel
      ? [withExtraTokens(usage, node, { ...extra, warmTokens })]
      : [withExtraTokens(undefined, node, { warmTokens }), withExtraTokens(usage, node, extra)];
    return [...call.earlierUsages, ...parts].filter((part) => part !== undefined);
  }
}
