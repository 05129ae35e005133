import assert from "node:assert/strict";
import { test } from "node:test";
import { byModel } from "../../../../router/http/metrics/by_model.ts";
import { type AgentUsage, runUsage, splicedCachedShare } from "../../../../router/moa/record/usage.ts";

const agent = (id: string, model: string, more: Partial<AgentUsage> = {}): AgentUsage => ({
  agent: id,
  model,
  calls: 1,
  promptTokens: 1000,
  completionTokens: 10,
  cachedTokens: undefined,
  reasoningTokens: 0,
  wastedTokens: 0,
  ...more,
});

test("The share of spliced tokens that were cached is over all of them, by model and in the run", () => {
  const agents = [
    agent("a1", "small"),
    agent("b1", "big", { splicedTokens: 900, splicedCachedTokens: 880 }),
    agent("b2", "big", { splicedTokens: 100, splicedCachedTokens: 0 }),
  ];
  assert.equal(splicedCachedShare(runUsage(agents)), 0.88);
  const models = byModel(agents);
  assert.equal(splicedCachedShare(models.get("big")!), 0.88);
  assert.equal(splicedCachedShare(models.get("small")!), undefined);
});

test("What an engine did not report is not counted as not cached: the share is unknown", () => {
  const agents = [
    agent("b1", "big", { splicedTokens: 900, splicedCachedTokens: 880 }),
    agent("c1", "other", { splicedTokens: 500 }),
  ];
  const usage = runUsage(agents);
  assert.equal(usage.splicedTokens, 1400);
  assert.equal(usage.splicedCachedTokens, undefined);
  assert.equal(splicedCachedShare(usage), undefined);
  assert.equal(splicedCachedShare(byModel(agents).get("big")!), 880 / 900);
  assert.equal(byModel(agents).get("other")?.splicedCachedTokens, undefined);
});

test("choices of one agent that two models wrote have no cost where one of them has no price, and each its tokens", () => {
  const choices = [agent("root", "spare"), agent("root", "own", { cost: 3, completionTokens: 40 })];
  for (const calls of [choices, choices.toReversed()]) {
    const usage = runUsage(calls);
    assert.deepEqual([usage.cost, usage.agents[0]?.cost, usage.agents[0]?.completionTokens], [
      undefined,
      undefined,
      50,
    ]);
    const models = byModel(usage.parts);
    assert.deepEqual([models.get("own")?.cost, models.get("spare")?.cost], [3, undefined]);
    assert.deepEqual([models.get("own")?.completionTokens, models.get("spare")?.completionTokens], [40, 10]);
  }
  const priced = runUsage([agent("root", "spare", { cost: 2 }), choices[1]!]);
  assert.deepEqual([priced.cost, priced.agents[0]?.cost], [5, 5]);
});
