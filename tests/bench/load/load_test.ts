import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { type LoadOptions, type LoadResult, runLoad } from "../../../bench/load/load.ts";
import { loadReport } from "../../../bench/report/load_report.ts";
import { svgOf } from "../../../bench/report/svg.ts";
import { DurationHistogram } from "../../../bench/statistics/histogram.ts";
import { quantile, summaryOf } from "../../../bench/statistics/statistics.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import type { Fault } from "../../../simulator/engine/faults.ts";
import type { Simulator } from "../../../simulator/server/simulator_options.ts";
import { createSimulator } from "../../../simulator/simulator.ts";

/** Sends a load to a simulated vLLM server in virtual time. */
async function load(
  options: Partial<LoadOptions> & { readonly fault?: Fault } = {},
): Promise<{ result: LoadResult; engine: Simulator; open: number }> {
  const clock = new VirtualClock();
  const engine = createSimulator({ engine: "vllm", models: ["m"], cost: "8b", clock, seed: "load" });
  if (options.fault !== undefined) engine.inject(options.fault);
  const transport = new MemoryTransport(() => (request, signal) => engine.handle(request, signal));
  const result = await clock.run(() =>
    runLoad({
      transport,
      clock,
      url: "http://engine",
      apiKey: undefined,
      model: "m",
      requests: 12,
      warmUp: 2,
      concurrency: 3,
      ratePerSecond: undefined,
      inputTokens: 40,
      outputTokens: 20,
      ignoreEos: true,
      timeoutMs: 60_000,
      random: new Random("load"),
      signal: new AbortController().signal,
      ...options,
    })
  );
  return { result, engine, open: transport.inFlight };
}

test("A closed loop keeps so many requests running, and counts what the engine counts", async () => {
  const done: number[] = [];
  const { result, engine, open } = await load({ onDone: (count) => done.push(count) });
  assert.equal(result.completed, 12);
  assert.equal(result.failed, 0);
  assert.equal(result.maxConcurrent, 3);
  assert.deepEqual(done, Array.from({ length: 12 }, (_, index) => index + 1));
  assert.equal(engine.stats.requests, 14);
  assert.equal(result.outputTokens, 12 * 20);
  assert.equal(engine.stats.generationTokens, 14 * 20);
  assert.equal(result.inputTokens, engine.stats.promptTokens * 12 / 14);
  assert.equal(result.ttft.count, 12);
  // A token that is only a part of a character shows no text yet.
  assert.ok(result.itl.count > 12 * 17 && result.itl.count <= 12 * 19, `${result.itl.count} gaps`);
  assert.ok(result.ttft.max < result.e2e.quantile(0));
  const decodeMs = result.e2e.mean - result.ttft.mean;
  assert.ok(Math.abs(result.tpot.mean * 19 - decodeMs) < 1e-6 * decodeMs);
  assert.equal(engine.running, 0);
  assert.equal(open, 0);
});

test("An open loop starts requests at its rate, whatever the engine does", async () => {
  const { result } = await load({ ratePerSecond: 50, requests: 80, concurrency: 10_000, outputTokens: 150 });
  assert.equal(result.completed, 80);
  assert.ok(result.maxConcurrent > 20, `${result.maxConcurrent} at once`);
  const expectedMs = 80 / 50 * 1000;
  assert.ok(
    result.durationMs > 0.8 * expectedMs && result.durationMs < 2 * expectedMs,
    `${result.durationMs}`,
  );
  const limited = await load({ ratePerSecond: 50, requests: 60, concurrency: 4 });
  assert.equal(limited.result.maxConcurrent, 4);
  assert.equal(limited.result.completed, 60);
});

test("The same seed gives the same load", async () => {
  const figures = async (seed: string) => {
    const { result } = await load({ random: new Random(seed), ratePerSecond: 20 });
    return JSON.stringify(loadReport(result, "here", {}).data);
  };
  assert.equal(await figures("a"), await figures("a"));
  assert.notEqual(await figures("a"), await figures("b"));
});

test("Failures are counted with what they said, and leave the latencies alone", async () => {
  for (
    const [fault, words] of [
      [{ kind: "status_503", count: 4 }, /status 503/],
      [{ kind: "refuse", count: 4 }, /connect failed/],
      [{ kind: "truncate", count: 4, value: 3 }, /reset in body|broke off/],
      [{ kind: "hang", count: 4 }, /no answer within 2 s/],
    ] as const
  ) {
    const { result, open } = await load({ fault: { ...fault }, warmUp: 0, timeoutMs: 2000 });
    assert.equal(result.failed, 4, fault.kind);
    assert.equal(result.completed, 8, fault.kind);
    assert.equal(result.e2e.count, 8, fault.kind);
    const [[error, count] = ["", 0]] = result.errors;
    assert.match(error, words);
    assert.equal(count, 4);
    assert.equal(open, 0, fault.kind);
  }
});

test("A load that is broken off gives what it has measured and leaves nothing open; with nothing it rejects", async () => {
  for (const ratePerSecond of [undefined, 100]) {
    const stop = new AbortController();
    const reason = new Error("enough");
    const { result, open } = await load({
      ratePerSecond,
      signal: stop.signal,
      onDone: (done) => done === 4 && stop.abort(reason),
    });
    assert.equal(result.stopped, true);
    assert.equal(result.completed, 4);
    assert.equal(result.failed, 0);
    assert.equal(result.e2e.count, 4);
    assert.equal(open, 0);
    await assert.rejects(load({ ratePerSecond, signal: AbortSignal.abort(reason) }), reason);
  }
  assert.equal((await load()).result.stopped, false);
});

test("Quantiles of the histogram are within 1.2 % of the exact ones, mean and ends are exact", () => {
  const durations = fc.array(fc.double({ min: 0.01, max: 1e7, noNaN: true }), {
    minLength: 1,
    maxLength: 200,
  });
  fc.assert(fc.property(durations, fc.double({ min: 0, max: 1, noNaN: true }), (values, share) => {
    const histogram = new DurationHistogram();
    for (const value of values) histogram.add(value);
    const sorted = [...values].sort((a, b) => a - b);
    const exact = sorted[Math.max(1, Math.ceil(share * values.length)) - 1] ?? NaN;
    assert.ok(Math.abs(histogram.quantile(share) - exact) <= 0.012 * exact);
    assert.equal(histogram.max, sorted.at(-1));
    assert.equal(histogram.count, values.length);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    assert.ok(Math.abs(histogram.mean - mean) <= 1e-9 * mean);
  }));
  assert.ok(Number.isNaN(new DurationHistogram().quantile(0.5)));
});

test("Summaries interpolate between neighbours", () => {
  const { count, mean, min, p50, p90, max } = summaryOf([40, 10, 30, 20]);
  assert.deepEqual({ count, mean, min, p50, max }, { count: 4, mean: 25, min: 10, p50: 25, max: 40 });
  assert.ok(Math.abs(p90 - 37) < 1e-9);
  assert.ok(Number.isNaN(quantile([], 0.5)));
});

test("The report of a load has the names of vLLM's bench serve, and a plot of what was measured", async () => {
  const { result } = await load({ fault: { kind: "status_500", count: 1 } });
  const report = loadReport(result, "Measured in a test", { model_id: "m" });
  const json: Record<string, unknown> = JSON.parse(JSON.stringify(report.data));
  for (const name of ["ttft", "tpot", "itl", "e2el"]) {
    for (const statistic of ["mean", "median", "std", "p99"]) {
      assert.equal(typeof json[`${statistic}_${name}_ms`], "number", `${statistic}_${name}_ms`);
    }
  }
  assert.equal(json["simulated"], false);
  assert.equal(json["model_id"], "m");
  const svg = await svgOf(report);
  for (const text of ["Measured in a test", "end to end"]) assert.ok(svg.includes(text), text);
  const none = loadReport((await load({ fault: { kind: "refuse", count: 99 } })).result, "here", {});
  assert.equal(none.data["median_ttft_ms"], null);
  assert.ok((await svgOf(none)).startsWith("<svg "));
});

test("The time per output token of a graph is that of its answer's tokens, not of all that its agents wrote", async () => {
  const clock = new VirtualClock();
  const chunk = (body: unknown) => new TextEncoder().encode(`data: ${JSON.stringify(body)}\n\n`);
  const transport = new MemoryTransport(() => () => {
    async function* body() {
      for (let piece = 0; piece < 11; piece++) {
        await clock.sleep(10);
        yield chunk({ choices: [{ index: 0, delta: { content: "x" } }] });
      }
      const details = { reasoning_tokens: 0, answer_tokens: 11 };
      yield chunk({
        choices: [],
        usage: { prompt_tokens: 5, completion_tokens: 500, completion_tokens_details: details },
      });
      yield new TextEncoder().encode("data: [DONE]\n\n");
    }
    return Promise.resolve({ status: 200, headers: {}, body: body() });
  });
  const result = await clock.run(() =>
    runLoad({
      transport,
      clock,
      url: "http://router",
      apiKey: undefined,
      model: "moa",
      requests: 2,
      warmUp: 0,
      concurrency: 1,
      ratePerSecond: undefined,
      inputTokens: 5,
      outputTokens: 11,
      ignoreEos: false,
      timeoutMs: 60_000,
      random: new Random("load"),
      signal: new AbortController().signal,
    })
  );
  assert.equal(result.tpot.mean, 10);
  assert.deepEqual([result.outputTokens, result.allOutputTokens], [22, 1000]);
  const { notes } = loadReport(result, "here", {});
  assert.deepEqual(notes, ["All agents together wrote 4,545 tokens/s"]);
});
