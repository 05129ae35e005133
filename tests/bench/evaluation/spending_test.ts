import assert from "node:assert/strict";
import { test } from "node:test";
import { evalFigures } from "../../../bench/evaluation/eval_figures.ts";
import type { EvalRecord } from "../../../bench/evaluation/eval_record.ts";
import { normalisedFigures } from "../../../bench/evaluation/normalised.ts";
import { readPriceTable } from "../../../bench/evaluation/price_table.ts";
import { PLAIN_BASIS } from "../../../bench/evaluation/spending.ts";
import { DurationHistogram } from "../../../bench/statistics/histogram.ts";

const TABLE = `{
  "gpu_hour": 3.6, // of one
  "models": { "l": { "gpus": 2, "price": { "prompt": 1, "cached": 0.5, "completion": 4 } } },
}`;

function record(mode: string, question: string, more: Partial<EvalRecord> = {}): EvalRecord {
  const gaps = new DurationHistogram();
  for (const ms of [10, 20, 30]) gaps.add(ms);
  return {
    set: "sums",
    question,
    mode,
    repeat: 0,
    outcome: "right",
    stated: "1",
    unchecked: null,
    parts: null,
    readings: {},
    text: "1",
    finish: "stop",
    ttftMs: 100,
    latencyMs: 160,
    promptTokens: 1000,
    completionTokens: 500,
    answerTokens: 4,
    gaps: gaps.kept(),
    drawn: 1,
    work: {
      calls: 1,
      cachedTokens: 400,
      wastedTokens: 0,
      savedTokens: 0,
      cost: null,
      models: { l: { calls: 1, promptTokens: 1000, cachedTokens: 400, completionTokens: 500 } },
    },
    ...more,
  };
}

test("Gaps are those of all answers' texts together, and a token's time is that after the first text", () => {
  const [figures] = evalFigures([record("m", "1"), record("m", "2", { gaps: undefined, latencyMs: 5000 })]);
  const { itlMs, tpotMs } = figures!.reading;
  assert.ok(Math.abs(itlMs.mean - 20) < 1e-9 && Math.abs(itlMs.p50 - 20) < 0.2);
  assert.deepEqual([itlMs.max, tpotMs], [30, 20], "an answer that came in one piece has neither");
});

test("A histogram is the same again when it was kept in parts", () => {
  const [all, one, other, joined] = Array.from({ length: 4 }, () => new DurationHistogram());
  for (let ms = 1; ms < 2000; ms *= 1.37) {
    all!.add(ms);
    (ms < 50 ? one : other)!.add(ms);
  }
  for (const part of [one!, other!]) joined!.addKept(JSON.parse(JSON.stringify(part.kept())));
  assert.deepEqual({ ...joined!.kept(), sum: 0, squares: 0 }, { ...all!.kept(), sum: 0, squares: 0 });
  assert.ok(Math.abs(joined!.mean - all!.mean) < 1e-9);
  assert.equal(new DurationHistogram().kept(), undefined);
});

test("A price table's costs are those of tokens and of GPUs' time, and a model without a price has none", () => {
  const prices = readPriceTable(TABLE, "prices.jsonc");
  const basis = { prices, gpusOf: () => 2 };
  const [figures] = evalFigures([record("m", "1"), record("m", "2")], basis);
  // 600 prompt tokens at 1, 400 at 0.5 and 500 of completion at 4 a million.
  assert.ok(Math.abs(figures!.tokenCost! - 0.0028) < 1e-12);
  assert.ok(Math.abs(figures!.gpuSeconds! - 0.32) < 1e-12);
  assert.ok(Math.abs(figures!.gpuCost! - 0.32 * 3.6 / 3600) < 1e-12);
  const other = { prices: readPriceTable('{"gpu_hour": 1}', "p"), gpusOf: () => 1 };
  assert.equal(evalFigures([record("m", "1")], other)[0]!.tokenCost, null);
  const [plain] = evalFigures([record("m", "1")], PLAIN_BASIS);
  assert.deepEqual([plain!.tokenCost, plain!.gpuCost], [null, null], "no table, and the server says nothing");
  assert.throws(() => readPriceTable('{"gpuhour": 1}', "p.jsonc"), /p\.jsonc:1:2.*gpu_hour/s);
});

test("Figures are divided by those of one mode over the answers of both, each by what is known of both", () => {
  const records = [
    record("tree", "1"),
    record("tree", "2", { latencyMs: 440, outcome: "wrong" }),
    record("tree", "3", { latencyMs: 9000 }),
    record("fast", "1", { latencyMs: 100, gaps: undefined }),
    record("fast", "2", { latencyMs: 200, completionTokens: 250, ttftMs: 50 }),
  ];
  const [figures, ...rest] = normalisedFigures(records, {
    modes: ["tree", "fast"],
    by: "tree",
    basis: PLAIN_BASIS,
  });
  assert.equal(rest.length, 0);
  const { answers, latency, completionTokens, accuracy, tpot, wastedTokens, tokenCost } = figures!;
  assert.deepEqual([answers, latency, completionTokens, accuracy], [2, 0.5, 0.75, 2]);
  assert.ok(Math.abs(tpot - (150 / 3) / (340 / 3)) < 1e-12, "of the one question that has both");
  assert.ok(Number.isNaN(wastedTokens) && Number.isNaN(tokenCost), "nothing is divided by nothing");
});
