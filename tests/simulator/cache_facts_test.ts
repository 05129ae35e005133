import assert from "node:assert/strict";
import { test } from "node:test";
import type { Json, JsonObject } from "../../base/json.ts";
import type { Simulator, SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { ask, at, ids, json, simulated } from "./recordings.ts";

const A = ids(300, 1500);
const B = ids(17, 900);

async function vllmCached(
  simulator: Simulator,
  prompt: readonly number[],
  more: JsonObject = {},
): Promise<Json> {
  const body = { prompt: [...prompt], max_tokens: 1, ...more };
  return at(
    json(await ask(simulator, { path: "/v1/completions", body })),
    "usage",
    "prompt_tokens_details",
    "cached_tokens",
  );
}

async function sglangCached(
  simulator: Simulator,
  input: readonly number[],
  more: JsonObject = {},
): Promise<Json> {
  const body = { input_ids: [...input], sampling_params: { max_new_tokens: 0 }, ...more };
  return at(json(await ask(simulator, { path: "/generate", body })), "meta_info", "cached_tokens");
}

const VLLM: Partial<SimulatorOptions> = { blockSize: 32, kvTokens: 65536, maxBatchedTokens: 2048 };
const SGLANG: Partial<SimulatorOptions> = {
  engine: "sglang",
  version: "0.5.18",
  kvTokens: 65536,
  maxBatchedTokens: 2048,
};

test("vLLM hits whole blocks below the last token of the prompt, as measured", async () => {
  const { simulator, run } = simulated(VLLM);
  await run(async () => {
    assert.equal(await vllmCached(simulator, A), 0);
    assert.equal(await vllmCached(simulator, A), 1472);
    const longer = [...A, ...B.slice(0, 50)];
    assert.equal(await vllmCached(simulator, longer), 1472);
    assert.equal(await vllmCached(simulator, longer), 1536);
    assert.equal(await vllmCached(simulator, A.slice(0, 1024)), 992);
    assert.equal(await vllmCached(simulator, [...A.slice(0, 1024), 5]), 1024);
    assert.equal(await vllmCached(simulator, [...A.slice(0, 700), ...B]), 672);
  });
});

test("vLLM hits floor((n - 1) / B) * B of a prompt that it has seen, for every length", async () => {
  const { simulator, run } = simulated({ ...VLLM, blockSize: 16 });
  await run(async () => {
    await vllmCached(simulator, A.slice(0, 200));
    for (let n = 1; n <= 200; n++) {
      assert.equal(await vllmCached(simulator, A.slice(0, n)), Math.floor((n - 1) / 16) * 16, `${n} tokens`);
    }
  });
});

test("vLLM's growing warms hit exactly the one before", async () => {
  const { simulator, run } = simulated(VLLM);
  await run(async () => {
    for (let n = 256; n <= 1280; n += 256) {
      assert.equal(await vllmCached(simulator, A.slice(0, n)), n === 256 ? 0 : n - 256);
    }
  });
});

test("vLLM shares blocks within one step, keeps salts apart and caches decoded blocks while they grow", async () => {
  const { simulator, clock, run } = simulated({ ...VLLM, cost: "8b", maxBatchedTokens: 8192 });
  await run(async () => {
    const twice = await Promise.all([
      vllmCached(simulator, ids(1, 3000)),
      vllmCached(simulator, ids(1, 3000)),
    ]);
    assert.deepEqual(twice, [0, 2976]);
    assert.equal(await vllmCached(simulator, ids(1, 3000), { cache_salt: "other" }), 0);
    assert.equal(await vllmCached(simulator, ids(1, 3000), { cache_salt: "other" }), 2976);

    const prompt = ids(700, 600);
    const running = ask(simulator, {
      path: "/v1/completions",
      body: { prompt, max_tokens: 700, ignore_eos: true, return_token_ids: true },
    });
    await clock.sleep(593 * 6);
    assert.equal(await vllmCached(simulator, prompt), 576);
    const known = at(json(await running), "choices", 0, "token_ids");
    assert.ok(Array.isArray(known));
    const decoded = known.filter((id) => typeof id === "number").slice(0, 593);
    assert.equal(await vllmCached(simulator, [...prompt, ...decoded]), 1184);
  });
});

test("vLLM evicts the tail of the least recently used prompt first", async () => {
  const { simulator, run } = simulated({ ...VLLM, kvTokens: 512 * 32, contextTokens: 16384 });
  await run(async () => {
    const old = ids(1, 4000);
    await vllmCached(simulator, old);
    for (let i = 0; i < 4; i++) await vllmCached(simulator, ids(100 + 400 * i, 3500).reverse());
    const left = await vllmCached(simulator, old);
    assert.ok(typeof left === "number" && left > 0 && left < 3000, `${left} tokens are left`);
  });
});

test("vLLM's reset drops the cache, and reading log-probabilities of the prompt ignores it", async () => {
  const { simulator, run } = simulated(VLLM);
  await run(async () => {
    await vllmCached(simulator, A);
    assert.equal(await vllmCached(simulator, A, { echo: true, logprobs: 1 }), 0);
    assert.equal(await vllmCached(simulator, A), 1472);
    assert.deepEqual(json(await ask(simulator, { method: "POST", path: "/reset_prefix_cache" })), {
      success: true,
    });
    assert.equal(await vllmCached(simulator, A), 0);
  });
});

test("SGLang hits token by token, up to the last one, as measured", async () => {
  const { simulator, run } = simulated(SGLANG);
  await run(async () => {
    assert.equal(await sglangCached(simulator, ids(1, 500)), 0);
    assert.equal(await sglangCached(simulator, ids(1, 600)), 500);
    assert.equal(await sglangCached(simulator, ids(1, 500)), 499);
    assert.equal(await sglangCached(simulator, ids(1, 500), { sampling_params: { max_new_tokens: 1 } }), 499);
    assert.equal(await sglangCached(simulator, ids(1, 500), { extra_key: "A" }), 0);
    assert.equal(await sglangCached(simulator, ids(1, 500), { extra_key: "A" }), 499);
  });
});

test("SGLang caches a finished answer but for its last token", async () => {
  const { simulator, run } = simulated(SGLANG);
  await run(async () => {
    const prompt = ids(1, 300);
    const body = { input_ids: prompt, sampling_params: { max_new_tokens: 16, ignore_eos: true } };
    const made = at(json(await ask(simulator, { path: "/generate", body })), "output_ids");
    assert.ok(Array.isArray(made) && made.length === 16);
    const turn = [...prompt, ...made.filter((id) => typeof id === "number")];
    assert.equal(await sglangCached(simulator, turn), 315);
    assert.equal(await sglangCached(simulator, [...turn, ...ids(1000, 20)]), 316);
  });
});

test("SGLang's logprob_start_len caps the hit", async () => {
  const { simulator, run } = simulated(SGLANG);
  await run(async () => {
    const prompt = ids(1, 300);
    await sglangCached(simulator, prompt);
    const withStart = (start: number) =>
      sglangCached(simulator, prompt, {
        return_logprob: true,
        logprob_start_len: start,
        sampling_params: { max_new_tokens: 1 },
      });
    assert.equal(await withStart(0), 0);
    assert.equal(await withStart(100), 100);
    assert.equal(await withStart(-1), 299);
  });
});

test("SGLang shares a finished chunk among identical prompts that come together", async () => {
  const { simulator, run } = simulated({ ...SGLANG, cost: "8b" });
  const hits = await run(() => Promise.all([1, 2, 3].map(() => sglangCached(simulator, ids(1, 3000)))));
  assert.deepEqual(hits, [0, 2048, 2048]);
});

test("The engines' own counters equal the sums of what they reported", async () => {
  for (const engine of ["vllm", "sglang"] as const) {
    const { simulator, run } = simulated({ engine });
    await run(async () => {
      let cached = 0;
      for (let n = 100; n <= 500; n += 57) {
        const body = { prompt: ids(1, n), max_tokens: 3, ignore_eos: true };
        const usage = at(json(await ask(simulator, { path: "/v1/completions", body })), "usage");
        const details = at(usage, "prompt_tokens_details", "cached_tokens");
        cached += typeof details === "number" ? details : 0;
      }
      assert.equal(simulator.stats.cachedTokens, cached);
      assert.equal(simulator.stats.requests, 8);
      assert.equal(simulator.stats.generationTokens, 24);
      const metrics = (await ask(simulator, { path: "/metrics" })).body;
      assert.match(metrics, new RegExp(`generation_tokens_total\\{[^}]*\\} 24\\.0`));
      assert.match(
        metrics,
        new RegExp(`(prefix_cache_hits_total|cached_tokens_total)\\{[^}]*\\} ${cached}\\.0`),
      );
    });
  }
});
