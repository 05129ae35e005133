import type { AgentUsage } from "../../moa/record/usage.ts";

/** Sums over engine calls. */
export interface Counts {
  calls: number;
  promptTokens: number;
  completionTokens: number;
  /** Undefined where no engine reported it. */
  cachedTokens: number | undefined;
  reasoningTokens: number;
  wastedTokens: number;
  warmTokens: number;
  cutTokens: number;
  splicedTokens: number;
  /** Undefined where an engine did not report it. */
  splicedCachedTokens: number | undefined;
  savedTokens: number;
  /** Undefined where the model has no price. */
  cost: number | undefined;
}

/** Sums over the work of each model, in order of first appearance. */
export function byModel(parts: readonly AgentUsage[]): Map<string, Counts> {
  const models = new Map<string, Counts>();
  for (const agent of parts) {
    const sum = models.get(agent.model) ?? {
      calls: 0,
      promptTokens: 0,
      completionTokens: 0,
      cachedTokens: undefined,
      reasoningTokens: 0,
      wastedTokens: 0,
      warmTokens: 0,
      cutTokens: 0,
      splicedTokens: 0,
      splicedCachedTokens: undefined,
      savedTokens: 0,
      cost: undefined,
    };
    sum.calls += agent.calls;
    sum.promptTokens += agent.promptTokens;
    sum.completionTokens += agent.completionTokens;
    sum.reasoningTokens += agent.reasoningTokens;
    sum.wastedTokens += agent.wastedTokens;
    sum.warmTokens += agent.warmTokens ?? 0;
    sum.cutTokens += agent.cutTokens ?? 0;
    const { splicedTokens = 0, splicedCachedTokens: cached } = agent;
    if (splicedTokens > 0) {
      const before = sum.splicedTokens === 0 ? 0 : sum.splicedCachedTokens;
      sum.splicedCachedTokens = before === undefined || cached === undefined ? undefined : before + cached;
      sum.splicedTokens += splicedTokens;
    }
    sum.savedTokens += agent.savedTokens ?? 0;
    if (agent.cost !== undefined) sum.cost = (sum.cost ?? 0) + agent.cost;
    if (agent.cachedTokens !== undefined) sum.cachedTokens = (sum.cachedTokens ?? 0) + agent.cachedTokens;
    models.set(agent.model, sum);
  }
  return models;
}
