import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../base/json.ts";
import { ask, simulated } from "./recordings.ts";

test("bodies that a real server refuses are refused, not decoded for ever", async () => {
  const cases: [engine: "vllm" | "sglang", body: JsonObject][] = [
    ["vllm", { prompt: "x", n: 2 ** 64 }],
    ["vllm", { prompt: "x", n: 16_385 }],
    ["vllm", { prompt: "x", n: 0 }],
    ["sglang", { prompt: [["a"]] }],
    ["sglang", { prompt: [[1], [[2]]] }],
    ["sglang", { prompt: [[1.5]] }],
    ["sglang", { prompt: [null] }],
  ];
  for (const [engine, body] of cases) {
    const { simulator, run } = simulated({ engine });
    await run(async () => {
      const answer = await ask(simulator, { path: "/v1/completions", body: { max_tokens: 2, ...body } });
      assert.equal(answer.status, 400, JSON.stringify(body));
    });
  }
});
