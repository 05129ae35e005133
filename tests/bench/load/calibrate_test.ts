import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { Transport } from "../../../base/transport.ts";
import { measureCost } from "../../../bench/load/calibrate.ts";
import { decodeResiduals, fitCost, prefillResiduals } from "../../../bench/load/fit_cost.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { H200_COSTS } from "../../../simulator/engine/cost.ts";
import { costFileOf, readCostFile } from "../../../simulator/engine/cost_file.ts";
import { createSimulator } from "../../../simulator/simulator.ts";

async function measured(engine: "vllm" | "sglang", cost: "4b" | "8b" | "32b") {
  const clock = new VirtualClock();
  const simulator = createSimulator({ engine, models: ["m"], cost, clock, seed: "calibrate" });
  const transport = new MemoryTransport(() => (request, signal) => simulator.handle(request, signal));
  return await measuredAt(transport, clock, 4096);
}

async function measuredAt(transport: Transport, clock: VirtualClock, maxPromptTokens: number) {
  return await clock.run(() =>
    measureCost({
      transport,
      clock,
      url: "http://engine",
      apiKey: undefined,
      model: "m",
      maxPromptTokens,
      maxStreams: 8,
      answerTokens: 16,
      repeats: 1,
      ignoreEos: true,
      timeoutMs: 60_000,
      random: new Random("calibrate"),
      signal: new AbortController().signal,
    })
  );
}

const NAMES = ["f", "b", "d", "q", "d0", "d1", "d2", "requestMs", "stepMs", "sequenceMs"] as const;

const CASES = [["vllm", "8b"], ["sglang", "32b"]] as const;

for (const [engine, size] of CASES) {
  test(`calibrating a simulated ${engine} of a known cost gives its parameters back`, async () => {
    const { prefills, decodes } = await measured(engine, size);
    const cost = fitCost(prefills, decodes);
    const known = H200_COSTS[size];
    for (const name of NAMES) {
      const error = Math.abs(cost[name] / known[name] - 1);
      assert.ok(error < 0.03, `${name}: ${cost[name]}, not ${known[name]}`);
    }
    for (const { error, point } of [...prefillResiduals(cost, prefills), ...decodeResiduals(cost, decodes)]) {
      assert.ok(Math.abs(error) < 0.005, `${error} at ${JSON.stringify(point)}`);
    }
    const whole = { ...cost, kvTokens: 1000, kvBytes: 10 };
    assert.deepEqual(readCostFile(JSON.stringify(costFileOf(whole, { model: "m" }))), whole);
  });
}

/** Answers of 16 tokens in eight pieces, 10 ms apart: a step takes 5 ms. */
async function* twoAtATime(clock: VirtualClock): AsyncGenerator<Uint8Array, void, undefined> {
  const event = (data: object) => new TextEncoder().encode(`data: ${JSON.stringify(data)}\n\n`);
  for (let piece = 0; piece < 8; piece++) {
    await clock.sleep(10);
    yield event({ choices: [{ delta: { content: "two words" } }] });
  }
  yield event({ choices: [], usage: { prompt_tokens: 40, completion_tokens: 16 } });
  yield new TextEncoder().encode("data: [DONE]\n\n");
}

test("where several tokens come at once, a step is the time of one of them", async () => {
  const clock = new VirtualClock();
  const transport = new MemoryTransport(() => () =>
    Promise.resolve({ status: 200, headers: {}, body: twoAtATime(clock) })
  );
  const { decodes } = await measuredAt(transport, clock, 64);
  for (const { streams, context, ms } of decodes) {
    assert.ok(Math.abs(ms - 5) < 0.01, `${ms}`);
    assert.ok(Math.abs(context / streams - 49) <= 2, `${context}`);
  }
});

test("steps that are shorter than the simulator's own overhead are fitted without it, and no parameter is negative", () => {
  const decodes = [1, 2, 4].flatMap((streams) =>
    [100, 1000].map((context) => ({ streams, context: streams * context, ms: 0.3 + 0.01 * streams }))
  );
  const prefills = [10, 100, 1000].map((tokens) => ({ tokens, ms: 1 + tokens / 1000 }));
  const cost = fitCost(prefills, decodes);
  assert.deepEqual([cost.stepMs, cost.sequenceMs], [0, 0]);
  assert.ok(Math.abs(cost.d0 - 0.3) < 1e-6 && Math.abs(cost.d1 - 0.01) < 1e-6, JSON.stringify(cost));
  for (const name of NAMES) assert.ok(cost[name] >= 0, name);
  for (const { error } of prefillResiduals(cost, prefills)) assert.ok(Math.abs(error) < 0.01);
});
