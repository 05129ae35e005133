import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { loadConfig } from "../../cfgs/load/load.ts";
import { createRouter, type Router } from "../../router/router.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import { BUILTIN_TOKENIZER } from "../../simulator/text/tokenizer.ts";
import { eventsOf } from "./warm_world.ts";
import { makeWorld, type World } from "./world.ts";

/** A preset's graph as it stands, over simulated servers; nothing says which tokenizer the models have. */
const presetGraph = (preset: string) => loadConfig({ path: preset, env: {} }).config.graphs["moa"];

async function play(world: World, work: (router: Router) => Promise<void>): Promise<void> {
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    await work(router);
    await router.close();
  }, { limitMs: 600_000 });
}

async function answer(router: Router, question: string) {
  const response = await router.app.request("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "moa",
      messages: [{ role: "user", content: question }],
      canopy: { include: ["usage"] },
    }),
  });
  assert.equal(response.status, 200);
  const { canopy } = await response.json();
  return canopy as { run_id: string; usage: Record<string, number> & { agents: Record<string, unknown>[] } };
}

/** The graph of README's first configuration; its models are a small one on vLLM and a large one on SGLang. */
function readmeGraph(): unknown {
  const text = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const [, config = "{}"] = /```jsonc\n([^]*?)```/.exec(text) ?? [];
  return JSON.parse(config.replaceAll('"small"', '"4b"').replaceAll('"large"', '"32b"')).graphs.moa;
}

const graphs = [
  { name: "launch-6-gpus-pd", graph: presetGraph("launch-6-gpus-pd"), engine: "sglang-pd", readers: 4 },
  { name: "launch-6-gpus-pd", graph: presetGraph("launch-6-gpus-pd"), engine: "vllm-pd", readers: 4 },
  { name: "README's example", graph: readmeGraph(), engine: undefined, readers: 1 },
] as const;
const worlds = graphs.flatMap((graph) => [
  { ...graph, tokenizer: "named by the workers", tokenizerPath: BUILTIN_TOKENIZER },
  { ...graph, tokenizer: "not to be had, but workers tokenise", tokenizerPath: undefined },
]);
for (const { name, graph, engine, readers, tokenizer, tokenizerPath } of worlds) {
  const servers = engine ?? "whole servers";
  test(
    `${name} over ${servers}, tokenizer ${tokenizer}: 95 % of the spliced tokens were cached, say all who tell`,
    {
      timeout: 120_000,
    },
    async () => {
      const world = makeWorld({
        seed: name,
        replicas: 1,
        graphs: { moa: graph },
        ...(engine === undefined ? {} : { pairs: { engine } }),
        tokenizerPath,
      });
      await play(world, async (router) => {
        const { run_id, usage } = await answer(router, "What is the sum of all numbers below one hundred?");
        const { spliced_tokens: spliced = 0, spliced_cached_tokens: cached = 0 } = usage;
        assert.ok(spliced > 200 * readers, `${spliced} spliced tokens`);
        assert.ok(cached >= 0.95 * spliced, `${cached} of ${spliced}`);
        assert.equal(usage["spliced_cached_share"], Math.round(cached / spliced * 1e4) / 1e4);
        assert.equal(usage.agents.filter((agent) => Number(agent["spliced_tokens"]) > 0).length, readers);
        const record = router.services.moa.get(run_id)?.record();
        assert.equal(record?.usage.splicedTokens, spliced);
        assert.equal(record?.usage.splicedCachedTokens, cached);
        assert.deepEqual(eventsOf(record!, "warm_off"), []);
        const metrics = await (await router.app.request("/metrics")).text();
        const sum = (kind: string) =>
          [...metrics.matchAll(new RegExp(`^canopy_tokens_total\\{[^}]*kind="${kind}"\\} (\\d+)`, "gm"))]
            .reduce((total, [, count]) => total + Number(count), 0);
        assert.equal(sum("spliced"), spliced);
        assert.equal(sum("spliced_cached"), cached);
      });
    },
  );
}

test("Where nobody knows the tokens the usage says so, and the trace why", async () => {
  const world = makeWorld({
    seed: "none",
    replicas: 1,
    graphs: { moa: presetGraph("launch-6-gpus-pd") },
    pairs: {},
    intercept: ({ url }) =>
      url.endsWith("/tokenize") ? () => Promise.reject(new Error("This server does not tell")) : undefined,
  });
  await play(world, async (router) => {
    const { run_id, usage } = await answer(router, "Why?");
    assert.equal(usage["spliced_tokens"], 0);
    assert.equal(usage["spliced_cached_share"], null);
    const off = eventsOf(router.services.moa.get(run_id)!.record(), "warm_off");
    assert.equal(off.length, 4);
    assert.match(
      String(off[0]?.data?.["reason"]),
      /does not know the model's tokenizer: .*there are no files here/,
    );
  });
});

test("A tokenizer that comes late does not hold up the start, and counts from then on", async () => {
  const world = makeWorld({
    seed: "late",
    replicas: 1,
    graphs: { moa: presetGraph("launch-6-gpus-pd") },
    pairs: {},
    tokenizerPath: BUILTIN_TOKENIZER,
  });
  const { clock, config, random, transport } = world;
  await clock.run(async () => {
    const router = createRouter({
      config,
      clock,
      random,
      transport,
      loadTokenizer: async () => {
        await clock.sleep(60_000);
        return builtinTokenizer();
      },
    });
    const shares: (number | undefined)[] = [];
    for (let at = 0; at < 2; at++) {
      const { usage } = await answer(router, "Why is the sky blue?");
      shares.push(usage["spliced_cached_share"]);
      await router.ready();
    }
    assert.equal(shares[0], null);
    assert.ok(Number(shares[1]) >= 0.95, String(shares[1]));
    await router.close();
  }, { limitMs: 600_000 });
});
