import assert from "node:assert/strict";
import { test } from "node:test";
import { knownModelConfig } from "../../../launcher/model/known_models.ts";
import { kvBytesPerTokenAndRank, weightsMiB } from "../../../launcher/model/memory.ts";
import { shapeOf } from "../../../launcher/model/model_shape.ts";
import { fixtureShape, modelConfig } from "../planned.ts";

const GIB = 2 ** 30;
const TOLERANCE = 0.03;

function assertNear(actual: number, published: number, what: string): void {
  const off = Math.abs(actual - published) / published;
  assert.ok(
    off <= TOLERANCE,
    `${what}: ${actual} is ${(off * 100).toFixed(1)} % off the published ${published}`,
  );
}

/**
 * Bytes of weights, and of cache for a token, that others have published. Index: `metadata.total_size` of the model's
 * model.safetensors.index.json on the Hub. Parameters: their number on the model's page, two bytes each. DSV3: table 1
 * of "Insights into DeepSeek-V3" (arXiv 2505.09343), in thousands of bytes. Llama: huggingface.co/blog/llama31.
 * gpt-oss: "checkpoint size" in table 1 of its model card (arXiv 2508.10925).
 */
const PUBLISHED: readonly (readonly [model: string, weights: number, kv: number | undefined, by: string])[] =
  [
    ["Qwen/Qwen3-4B", 8_044_936_192, undefined, "index"],
    ["Qwen/Qwen3-8B", 16_381_470_720, undefined, "index"],
    ["Qwen/Qwen3-32B", 65_524_246_528, undefined, "index"],
    ["Qwen/Qwen3-VL-4B-Instruct", 4_437_815_808 * 2, undefined, "parameters"],
    ["Qwen/Qwen3-VL-8B-Instruct", 8_767_123_696 * 2, undefined, "parameters"],
    ["Qwen/Qwen3-30B-A3B", 61_064_245_248, undefined, "index"],
    ["Qwen/Qwen2.5-72B-Instruct", 145_412_407_296, 327_680, "index, DSV3"],
    ["meta-llama/Llama-3.1-8B-Instruct", 16_060_522_496, 0.125 * GIB / 1_024, "index, Llama"],
    ["meta-llama/Llama-3.1-70B-Instruct", 141_107_412_992, undefined, "index"],
    ["meta-llama/Llama-3.1-405B-Instruct", 810e9, 516_096, "Llama, DSV3"],
    ["mistralai/Mixtral-8x7B-Instruct-v0.1", 93_405_585_408, undefined, "index"],
    // 671 billion parameters in 8 bits; the 14 billion of the draft layer are not loaded.
    ["deepseek-ai/DeepSeek-V3", 671e9, 70_272, "its model card, DSV3"],
    ["openai/gpt-oss-20b", 12.8 * GIB, undefined, "gpt-oss"],
    ["openai/gpt-oss-120b", 60.8 * GIB, undefined, "gpt-oss"],
  ];

for (const [model, weights, kv, by] of PUBLISHED) {
  test(`Weights and cache of ${model} are within 3 % of what is published (${by})`, () => {
    const shape = shapeOf(model, { config: modelConfig(model), source: "fixture" });
    assertNear(shape.weightBytes, weights, "weights");
    if (kv !== undefined) assertNear(shape.kvBytesPerToken, kv, "cache of a token");
  });
}

/** Nobody publishes a number for these; it follows from the layers, key heads and head size of the public config. */
test("The cache of a token is what the sizes in a config make it: keys and values of two bytes each", () => {
  const sizes = [
    ["Qwen/Qwen3-4B", 36, 8, 128],
    ["Qwen/Qwen3-8B", 36, 8, 128],
    ["Qwen/Qwen3-32B", 64, 8, 128],
    ["Qwen/Qwen3-VL-32B-Instruct", 64, 8, 128],
    ["Qwen/Qwen3-30B-A3B", 48, 4, 128],
    ["Qwen/Qwen2.5-7B-Instruct-AWQ", 28, 4, 128],
    ["meta-llama/Llama-3.1-70B-Instruct", 80, 8, 128],
    ["mistralai/Mixtral-8x7B-Instruct-v0.1", 32, 8, 128],
  ] as const;
  for (const [model, layers, heads, size] of sizes) {
    assert.equal(fixtureShape(model).kvBytesPerToken, 2 * layers * heads * size * 2, model);
  }
});

/** What engines have logged on GPUs: GiB of weights on each, and GiB of cache for so many tokens. */
test("Memory of each GPU is within 3 % of what engines logged", () => {
  const moe = fixtureShape("Qwen/Qwen3-30B-A3B");
  // vllm-project/vllm#17327: four GPUs, "Model loading took 14.2474 GiB" on each.
  assertNear(weightsMiB(moe, 4) / 1_024, 14.2474, "Qwen3-30B-A3B on four GPUs");
  const large = fixtureShape("Qwen/Qwen3-235B-A22B-FP8");
  // vllm-project/vllm#21348, four H100: vLLM 8.11 GiB for 178,880 tokens; SGLang 2 × 8.23 GiB for 367,404.
  assertNear(kvBytesPerTokenAndRank(large, 4), 8.11 * GIB / 178_880, "Qwen3-235B-A22B-FP8 on vLLM");
  assertNear(kvBytesPerTokenAndRank(large, 4), 16.46 * GIB / 367_404, "Qwen3-235B-A22B-FP8 on SGLang");
  // kyuz0/amd-strix-halo-vllm-toolboxes#5: "Model loading took 7.6785 GiB".
  assertNear(weightsMiB(fixtureShape("Qwen/Qwen3-4B"), 1) / 1_024, 7.6785, "Qwen3-4B on one GPU");
});

test("Heads are divided among ranks, copied beyond their number, and a latent vector is never divided", () => {
  const dense = fixtureShape("Qwen/Qwen3-8B");
  assert.equal(kvBytesPerTokenAndRank(dense, 4), 147_456 / 4);
  assert.equal(kvBytesPerTokenAndRank(dense, 16), 147_456 / 8);
  const latent = fixtureShape("deepseek-ai/DeepSeek-V3");
  assert.equal(kvBytesPerTokenAndRank(latent, 8), 70_272);
});

test("What Canopy knows of the presets' models agrees with their configs", () => {
  for (
    const model of ["Qwen/Qwen3-VL-4B-Instruct", "Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-32B-Instruct"]
  ) {
    const known = knownModelConfig(model);
    assert.ok(known !== undefined);
    const { source: _, ...own } = shapeOf(model, { config: known, source: "known" });
    const { source: __, ...published } = shapeOf(model, {
      config: modelConfig(model),
      source: "config.json",
    });
    assert.deepEqual(own, published);
  }
});

test("An 8-bit cache is half as large", () => {
  assert.equal(fixtureShape("Qwen/Qwen3-8B", "fp8").kvBytesPerToken, 147_456 / 2);
});
