import assert from "node:assert/strict";
import { test } from "node:test";
import { poolProblem } from "../../../router/pool/pool_problem.ts";
import { NO_COUNTS } from "./no_counts.ts";
import type { WorkerStatus } from "../../../router/pool/worker.ts";

const well: WorkerStatus = {
  id: "m.w1",
  url: "http://w1",
  health: "healthy",
  breaker: "closed",
  inFlight: 0,
  served: 0,
  failures: 0,
  counts: NO_COUNTS,
  lastError: undefined,
};
const unheard: WorkerStatus = { ...well, id: "m.w2", health: "unknown" };
const ill: WorkerStatus = { ...well, id: "m.w3", health: "unhealthy" };
const broken: WorkerStatus = { ...well, id: "m.w4", breaker: "open" };

test("one worker that was heard of, and whose breaker is not open, is enough", () => {
  assert.equal(poolProblem([unheard, ill, broken, well], { engine: "vllm" }), undefined);
  assert.equal(poolProblem([{ ...broken, breaker: "half_open" }], { engine: "vllm" }), undefined);
  assert.equal(
    poolProblem([unheard, ill, broken, { ...well, health: "draining" }], { engine: "vllm" }),
    "m.w2 was not heard of yet, m.w3 is out of service, m.w4 has failed too often (its breaker is open), " +
      "m.w1 is draining",
  );
  assert.equal(poolProblem([], { engine: "vllm" }), "it has no worker");
});

test("of pairs one of either half is needed; vLLM's decode servers work alone", () => {
  const prefill = { ...ill, role: "prefill" } as const;
  const decode = { ...well, role: "decode" } as const;
  assert.equal(poolProblem([prefill, decode], { engine: "sglang-pd" }), "m.w3 is out of service");
  assert.equal(poolProblem([prefill, decode], { engine: "vllm-pd" }), undefined);
  assert.equal(poolProblem([{ ...well, role: "prefill" }], { engine: "vllm-pd" }), "it has no decode server");
});
