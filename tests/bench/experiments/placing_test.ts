import assert from "node:assert/strict";
import { test } from "node:test";
import { measurePlacing, type PlacingOptions } from "../../../bench/experiments/placing.ts";

const FEW: Omit<PlacingOptions, "policy" | "servers"> = {
  prompts: "prefixes",
  requests: 320,
  clients: 8,
  cachedPrefixes: 12,
  seed: "placing",
};

test("over simulated engines cache_aware finds nearly all prefixes that were read before, round robin a third", async () => {
  const four = { ...FEW, servers: { whole: 4 } } as const;
  const { hits, perServer } = await measurePlacing({ ...four, policy: "cache_aware" });
  // 32 of 320 are the first ones.
  assert.ok(hits > 0.85, `${hits}`);
  assert.equal(perServer.reduce((sum, requests) => sum + requests, 0), FEW.requests);
  assert.ok((await measurePlacing({ ...four, policy: "round_robin" })).hits < 0.4);
});

test("over simulated pairs the prefill servers find them, and the same seed gives the same figures", async () => {
  const pairs = {
    ...FEW,
    servers: { prefill: 2, decode: 2 },
    cachedPrefixes: 24,
    policy: "cache_aware",
  } as const;
  const { hits } = await measurePlacing(pairs);
  assert.ok(hits > 0.85, `${hits}`);
  const few = { ...pairs, requests: 80 };
  assert.deepEqual(await measurePlacing(few), await measurePlacing(few));
});
