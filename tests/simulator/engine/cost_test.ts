import assert from "node:assert/strict";
import { test } from "node:test";
import { costModel, kernelMs } from "../../../simulator/engine/cost.ts";
import { ask, at, ids, json, simulated } from "../recordings.ts";

const SIZES = ["4b", "8b", "32b"] as const;

/** Largest error of the fits, as stated with them. */
const PREFILL_ERROR = { "4b": 0.086, "8b": 0.10, "32b": 0.076 };
const DECODE_ERROR = { "4b": 0.068, "8b": 0.066, "32b": 0.17 };
/** The measured figures are rounded to three digits. */
const ROUNDING = 0.006;

/** Measured prefill times in ms of n new tokens without a cached prefix: 4B, 8B, 32B on one GPU. */
const PREFILL_MS: readonly (readonly [n: number, ...times: number[]])[] = [
  [64, 3.67, 5.74, 20.8],
  [128, 3.97, 5.94, 21.1],
  [256, 4.78, 7.36, 27.4],
  [512, 7.03, 11.4, 45.6],
  [1024, 12.7, 21.3, 90.3],
  [2048, 25.0, 43.7, 185],
  [4096, 53.1, 91.6, 403],
  [8192, 126, 206, 881],
];

/** Measured decode steps in ms at 2,048 tokens of context. */
const DECODE_MS: readonly (readonly [batch: number, ...times: number[]])[] = [
  [1, 3.5, 5.2, 18.6],
  [8, 4.1, 5.9, 20.7],
  [32, 6.0, 7.9, 24.4],
  [64, 8.2, 10.3, 29.2],
  [128, 13.3, 15.3, 37.0],
];

function prefill(n: number, cached = 0) {
  return {
    prefillTokens: n,
    prefillAttention: n * (cached + n / 2),
    decodes: 0,
    decodeContext: 0,
    sequences: 1,
  };
}

function decode(batch: number, context: number) {
  return {
    prefillTokens: 0,
    prefillAttention: 0,
    decodes: batch,
    decodeContext: batch * context,
    sequences: batch,
  };
}

function assertNear(actual: number, expected: number, error: number, what: string): void {
  const relative = Math.abs(actual - expected) / expected;
  assert.ok(
    relative <= error + ROUNDING,
    `${what}: ${actual} against ${expected} (${(100 * relative).toFixed(1)} %)`,
  );
}

test("Prefill times are within the stated error of the measured ones", () => {
  for (const [n, ...times] of PREFILL_MS) {
    for (const [i, size] of SIZES.entries()) {
      assertNear(kernelMs(size, prefill(n)), times[i]!, PREFILL_ERROR[size], `${size}, ${n} tokens`);
    }
  }
});

test("Decode steps are within the stated error of the measured ones", () => {
  for (const [batch, ...times] of DECODE_MS) {
    for (const [i, size] of SIZES.entries()) {
      assertNear(
        kernelMs(size, decode(batch, 2048)),
        times[i]!,
        DECODE_ERROR[size],
        `${size}, batch of ${batch}`,
      );
    }
  }
});

test("A mixed step costs more than its decodes alone, and less than both parts one after the other", () => {
  for (const size of SIZES) {
    const mixed = kernelMs(size, {
      prefillTokens: 512,
      prefillAttention: 512 * 256,
      decodes: 32,
      decodeContext: 32 * 2048,
      sequences: 33,
    });
    assert.ok(mixed > kernelMs(size, decode(32, 2048)));
    assert.ok(mixed < kernelMs(size, prefill(512)) + kernelMs(size, decode(32, 2048)));
  }
});

test("Each step adds 0.7 ms and 0.05 ms per sequence, and the speed-up divides everything", () => {
  const kernel = kernelMs("8b", decode(10, 500));
  assert.ok(Math.abs(costModel("8b").stepMs(decode(10, 500)) - (kernel + 0.7 + 0.5)) < 1e-9);
  assert.ok(Math.abs(costModel("8b", 10).stepMs(decode(10, 500)) - (kernel + 1.2) / 10) < 1e-9);
  assert.equal(costModel("instant").stepMs(decode(10, 500)), 0);
});

test("A request takes the front end's time, its prefill and one step per further token", async () => {
  const { simulator, clock, run } = simulated({ cost: "8b" });
  await run(() =>
    ask(simulator, {
      path: "/v1/completions",
      body: { prompt: ids(1, 1000), max_tokens: 3, ignore_eos: true },
    })
  );
  let expected = 2 + kernelMs("8b", prefill(1000)) + 0.75;
  for (const context of [1001, 1002]) expected += kernelMs("8b", decode(1, context)) + 0.75;
  assert.ok(Math.abs(clock.now() - expected) < 1e-6, `${clock.now()} against ${expected}`);
});

test("A cached prefix is not computed again", async () => {
  const { simulator, clock, run } = simulated({ cost: "32b" });
  const prompt = ids(1, 4001);
  const time = async () => {
    const before = clock.now();
    const answer = await ask(simulator, { path: "/v1/completions", body: { prompt, max_tokens: 1 } });
    return {
      ms: clock.now() - before,
      cached: at(json(answer), "usage", "prompt_tokens_details", "cached_tokens"),
    };
  };
  const [cold, warm] = await run(async () => [await time(), await time()]);
  assert.equal(warm!.cached, 4000);
  assert.ok(cold!.ms > 350 && warm!.ms < 30, `${cold!.ms} ms, then ${warm!.ms} ms`);
});
