import type { AgentNode } from "../graph/graph_types.ts";

/** Token counts that add up. */
type Tokens = Omit<AgentUsage, "agent" | "model">;

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
    agents.set(call.agent, before === undefined ? call : { ...call, ...sum(before, call) });
  }
  const list = [...agents.values()];
  return { ...list.reduce<Tokens>(sum, none), agents: list };
}

function sum(a: Tokens, b: Tokens): Tokens {
  return {
    calls: a.calls + b.calls,
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    cachedTokens: a.cachedTokens === undefined ? b.cachedTokens : a.cachedTokens + (b.cachedTokens ?? 0),
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    wastedTokens: a.wastedTokens + b.wastedTokens,
    ...optionalSum("warmTokens", a, b),
    ...optionalSum("savedTokens", a, b),
  };
}

function optionalSum<K extends "warmTokens" | "savedTokens">(
  name: K,
  a: Tokens,
  b: Tokens,
): { [P in K]?: number } {
  const sum: { [P in K]?: number } = {};
  if (a[name] !== undefined || b[name] !== undefined) sum[name] = (a[name] ?? 0) + (b[name] ?? 0);
  return sum;
}

/** A call's usage with what warms computed for it; undefined when there was neither. */
export function withWarmTokens(
  usage: AgentUsage | undefined,
  warmTokens: number,
  node: AgentNode,
): AgentUsage | undefined {
  if (warmTokens === 0) return usage;
  return { agent: node.id, model: node.model, ...none, ...usage, warmTokens };
}

/** A call's usage with what an exit spared it; undefined when there was neither. */
export function withSavedTokens(
  usage: AgentUsage | undefined,
  savedTokens: number,
  node: AgentNode,
): AgentUsage | undefined {
  if (savedTokens === 0) return usage;
  return { agent: node.id, model: node.model, ...none, ...usage, savedTokens };
}
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
  readonly warmTokens?: number;
  /** Estimate of the completion tokens that an early exit spared; in none of the other counts. */
  readonly savedTokens?: number;
}
/** Tokens of a whole run: the sums over its agents. */

export interface RunUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number | undefined;
  readonly reasoningTokens: number;
  readonly wastedTokens: number;
  readonly warmTokens?: number;
  readonly savedTokens?: number;
  readonly calls: number;
  readonly agents: readonly AgentUsage[];
}
