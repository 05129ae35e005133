import assert from "node:assert/strict";
import { test } from "node:test";
import { createRouter } from "../../../router/router.ts";
import type { ExitPolicy } from "../../../scorer/policy/exit_policy.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { services } from "../../router/moa/fake_scorer.ts";
import { ask } from "../warm_world.ts";
import { makeWorld, sizes } from "../world.ts";

/** Asks for the verdict on the first two answers, and waits whatever it says. */
const policy: ExitPolicy = {
  needs: { logprobs: false, similarity: undefined, verdicts: true },
  wants: () => ({ similarities: [], verdicts: [[0, 1]] }),
  decide: ({ completions }, evidence) => ({
    exit: false,
    keep: completions.map(({ agent }) => agent),
    consensus: undefined,
    numbers: { reason: evidence.verdict([0, 1])?.reason ?? null },
  }),
};

test("the judging model reads the first answer while the second one is written, and finds it in its cache", async () => {
  for (const mode of ["on", "off"]) {
    const agents = sizes.map(({ name }) => ({ model: name }));
    const world = makeWorld({
      seed: "judge",
      replicas: 2,
      graphs: {
        moa: {
          layers: [{ agents }, { agents: [{ model: "32b" }] }],
          sampling: { max_tokens: 400 },
          early_exit: { metric: "verdict" },
          incremental_prefill: { mode },
        },
      },
      model: { tokenizer: "built-in" },
    });
    await world.clock.run(async () => {
      const router = createRouter({
        config: world.config,
        clock: world.clock,
        random: world.random.stream("router"),
        transport: world.transport,
        loadTokenizer: () => Promise.resolve(builtinTokenizer()),
        earlyExit: services({ policyOf: () => policy }),
      });
      await router.ready();
      const record = await ask(router, "moa", "Which of the two ways is the shorter one?");
      assert.equal(record.state, "done");
      const own = record.usage.agents.find(({ agent }) => agent === "l1.c1.verdict");
      assert.ok(own !== undefined && own.model === "4b", "the smallest model judges");
      const warm = record.events.find(({ type, agent }) => type === "warm_done" && agent === "l1.c1.verdict");
      const tokens = Number(warm?.data?.["tokens"] ?? 0);
      if (mode === "off") assert.equal(tokens, 0);
      else {
        assert.ok(tokens >= 100, `${tokens} tokens were warmed`);
        assert.equal(own.warmTokens, warm?.data?.["computed"]);
        assert.ok((own.cachedTokens ?? 0) >= tokens, `${own.cachedTokens} of ${tokens} tokens were found`);
      }
      await router.close();
    });
    assert.equal(world.transport.inFlight, 0);
  }
});
