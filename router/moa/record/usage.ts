import type { AgentNode } from "../graph/graph_types.ts";

/** Tokens of one agent's calls, all attempts together. */
export interface AgentUsage {
  readonly agent: string;
  readonly model: string;
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Undefined when no engine reported it. */
  readonly cachedTokens: number | undefined;
  readonly reasoningTokens: number;
  /** Completion tokens that nobody read: of agents that failed, were cancelled, or whose answers an exit dropped. */
  readonly wastedTokens: number;
  /** Prompt tokens that were computed ahead, by warms; in none of the other counts. */
  readonly warmTokens?: number | undefined;
  /** Tokens of spliced prompts up to the end of their last slots: all that could be prefilled ahead. */
  readonly splicedTokens?: number | undefined;
  /** Of these, the ones found in the cache when the whole prompt came; undefined where an engine did not say. */
  readonly splicedCachedTokens?: number | undefined;
  /** Tokens of precursors' answers that were left out because they did not fit the context of the agent that reads them. */
  readonly cutTokens?: number | undefined;
  /** Estimate of the completion tokens that an early exit spared; in none of the other counts. */
  readonly savedTokens?: number | undefined;
  /** Cost of the prompt and completion tokens; undefined where the model, or one of several, has no price. */
  readonly cost?: number | undefined;
}

/** Token counts that add up. */
type Tokens = Omit<AgentUsage, "agent" | "model">;

/** Tokens of a whole run: the sums over its agents. */
export interface RunUsage extends Tokens {
  /** One for each agent, with the model of its last call. */
  readonly agents: readonly AgentUsage[];
  /** One for each call, and model that worked for it. */
  readonly parts: readonly AgentUsage[];
  /** Present when agents have failed whose answers the run did without. */
  readonly degraded?: Degraded | undefined;
  /** Present where the request has a budget. */
  readonly spent?: Spent | undefined;
}

/** What a run with a budget has spent. */
export interface Spent {
  /** From the run's start. */
  readonly latencyMs: number;
  /** Of prompts and answers; a prompt whose length no engine has told is estimated. */
  readonly tokens: number;
  /** Undefined where the budget has no limit on it. */
  readonly cost: number | undefined;
  /** The limit that ended the run, or kept agents from starting. */
  readonly endedBy: "latency_ms" | "tokens" | "cost" | undefined;
}

/** The agents that a run did without because they failed. */
export interface Degraded {
  /** Number of the graph's agents, the root not among them. */
  readonly agents: number;
  readonly failed: readonly { readonly agent: string; readonly model: string; readonly reason: string }[];
}

const none: Tokens = {
  calls: 0,
  promptTokens: 0,
  completionTokens: 0,
  cachedTokens: undefined,
  reasoningTokens: 0,
  wastedTokens: 0,
};

/** The sums over a run's calls; `calls` of the same agent (attempts, choices) become one entry. */
export function runUsage(calls: readonly AgentUsage[]): RunUsage {
  const agents = new Map<string, AgentUsage>();
  for (const call of calls) {
    const before = agents.get(call.agent);
    const both = before && { ...call, ...sum(before, call), cost: sumOfCosts([before, call]) };
    agents.set(call.agent, both ?? call);
  }
  const list = [...agents.values()];
  return { ...list.reduce<Tokens>(sum, none), cost: sumOfCosts(calls), agents: list, parts: calls };
}

function sum(a: Tokens, b: Tokens): Tokens {
  return {
    calls: a.calls + b.calls,
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    cachedTokens: sumOfKnown(a.cachedTokens, b.cachedTokens),
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    wastedTokens: a.wastedTokens + b.wastedTokens,
    warmTokens: sumOfKnown(a.warmTokens, b.warmTokens),
    splicedTokens: sumOfKnown(a.splicedTokens, b.splicedTokens),
    splicedCachedTokens: isUnreported(a) || isUnreported(b)
      ? undefined
      : sumOfKnown(a.splicedCachedTokens, b.splicedCachedTokens),
    cutTokens: sumOfKnown(a.cutTokens, b.cutTokens),
    savedTokens: sumOfKnown(a.savedTokens, b.savedTokens),
  };
}

/** The cost of all; undefined where one of them that was called has no price. */
function sumOfCosts(usages: readonly AgentUsage[]): number | undefined {
  const called = usages.filter(({ calls }) => calls > 0);
  if (called.length === 0 || called.some(({ cost }) => cost === undefined)) return undefined;
  return called.reduce((all, { cost = 0 }) => all + cost, 0);
}

/** True for spliced tokens of which no engine said how many were cached: with others they make no share. */
function isUnreported({ splicedTokens = 0, splicedCachedTokens }: Partial<Tokens>): boolean {
  return splicedTokens > 0 && splicedCachedTokens === undefined;
}

function sumOfKnown(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : a + (b ?? 0);
}

/** Share of the tokens that could be prefilled ahead that was in the cache in the end; undefined where that is not known. */
export function splicedCachedShare(
  { splicedTokens, splicedCachedTokens }: Pick<AgentUsage, "splicedTokens" | "splicedCachedTokens">,
): number | undefined {
  if (splicedTokens === undefined || splicedTokens === 0) return undefined;
  return splicedCachedTokens === undefined ? undefined : splicedCachedTokens / splicedTokens;
}

/** Figures of a call that its engine does not know. */
export type ExtraTokens = Pick<AgentUsage, "warmTokens" | "savedTokens" | "splicedTokens" | "cutTokens">;

/** A call's usage with what warms computed for it and an exit spared it; undefined when there was nothing at all. */
export function withExtraTokens(
  usage: AgentUsage | undefined,
  node: AgentNode,
  { warmTokens = 0, savedTokens = 0, splicedTokens, cutTokens }: ExtraTokens,
): AgentUsage | undefined {
  if (warmTokens === 0 && savedTokens === 0 && splicedTokens === undefined && cutTokens === undefined) {
    return usage;
  }
  const cached = usage?.cachedTokens;
  return {
    agent: node.id,
    model: node.model,
    ...none,
    ...usage,
    warmTokens: warmTokens === 0 ? undefined : warmTokens,
    savedTokens: savedTokens === 0 ? undefined : savedTokens,
    cutTokens,
    splicedTokens,
    splicedCachedTokens: splicedTokens === undefined || cached === undefined
      ? undefined
      : Math.min(cached, splicedTokens),
  };
}
