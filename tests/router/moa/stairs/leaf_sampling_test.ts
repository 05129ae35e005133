import assert from "node:assert/strict";
import { test } from "node:test";
import { builtinTokenizer } from "../../../../simulator/server/backend.ts";
import { makeWorld, readAll } from "../run_harness.ts";

/** What the leaf of a chain of three is asked with beside its prompt. */
async function leafExtra(climbs: "root" | "all", priorityTokens: boolean): Promise<unknown> {
  const agents = [{ model: "a" }];
  const world = makeWorld({
    graph: {
      root: "staircase",
      staircase: { climbs, first_tokens: 8 },
      layers: [{ agents }, { agents }, { agents }],
      incremental_prefill: "off",
    },
    modelFields: { engine: "vllm", workers: ["http://w"] },
    tokenizer: builtinTokenizer(),
    capabilities: {
      tokenIds: true,
      returnsTokenIds: true,
      priority: "lower_first",
      ...(priorityTokens ? { priorityTokens: true } : {}),
    },
  });
  const run = world.start({ question: { kind: "chat", messages: [{ role: "user", content: "why?" }] } });
  await world.clock.run(async () => {
    await readAll(run).catch(() => {});
    await run.ended;
  });
  return world.engines.get("a")!.calls[0]?.request.sampling.extra;
}

test("a leaf's first words go ahead where whoever reads it waits for no more, and where that can end with them", async () => {
  assert.deepEqual(await leafExtra("all", true), { priority: -1, priority_tokens: 12 });
  assert.equal(await leafExtra("all", false), undefined);
  assert.equal(await leafExtra("root", true), undefined, "its whole answer is waited for");
});
