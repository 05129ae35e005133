import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultCapabilities } from "../../../../router/engines/probe.ts";
import { aheadOf, goingAhead } from "../../../../router/moa/stairs/ahead.ts";

const onnx = defaultCapabilities({ engine: "onnx", context_tokens: undefined });
const vllm = defaultCapabilities({ engine: "vllm", context_tokens: undefined });

test("the nearer to the root, the further ahead; a leaf only where that ends with its first words", () => {
  const at = (depth: number) => ({ depth, firstTokens: 8 });
  assert.deepEqual([0, 1, 2].map((depth) => aheadOf(onnx, at(depth))), [
    { priority: -1, tokens: 12 },
    { priority: -2, tokens: 12 },
    { priority: -3, tokens: 12 },
  ]);
  const queues = { ...vllm, priority: "lower_first" } as const;
  assert.deepEqual([0, 1].map((depth) => aheadOf(queues, at(depth))), [
    undefined,
    { priority: -2, tokens: undefined },
  ]);
  assert.equal(aheadOf(vllm, at(1)), undefined, "a server that orders nothing is told nothing");
});

test("what a request states itself is where it goes ahead from", () => {
  assert.deepEqual(goingAhead({ max_tokens: 9 }, { priority: -2, tokens: undefined }), {
    max_tokens: 9,
    extra: { priority: -2 },
  });
  assert.deepEqual(goingAhead({ extra: { priority: 5, top_k: 1 } }, { priority: -1, tokens: 12 }), {
    extra: { priority: 4, top_k: 1, priority_tokens: 12 },
  });
});
