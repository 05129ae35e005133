import assert from "node:assert/strict";
import { test } from "node:test";
import { sweepChunks } from "../../../bench/experiments/chunk.ts";
import { dense991, tree931 } from "../../../bench/experiments/graphs.ts";
import { compareModes, type ExperimentOptions } from "../../../bench/experiments/modes.ts";
import { measurePrefill } from "../../../bench/experiments/prefill.ts";
import { runTrial, type Trial } from "../../../bench/experiments/trial.ts";
import { questionsOf } from "../../../bench/experiments/workload.ts";
import { shippedWorkload } from "../../../bench/experiments/workloads/shipped_workloads.ts";
import type { Serving } from "../../../bench/experiments/world.ts";
import { chunkReport } from "../../../bench/report/chunk_report.ts";
import { modesReport } from "../../../bench/report/modes_report.ts";
import { prefillReport } from "../../../bench/report/prefill_report.ts";
import type { Report } from "../../../bench/report/report.ts";
import { svgOf } from "../../../bench/report/svg.ts";
import { shortWorkload } from "./short_workload.ts";

const common: ExperimentOptions = {
  serving: "sglang-pd",
  seed: "test",
  slots: "declared",
  signal: new AbortController().signal,
};

/** Simulated times are sums of fractions: their order of summation may differ. */
function near(actual: number, expected: number, message: string): void {
  assert.ok(
    Math.abs(actual - expected) <= 1e-6 * Math.abs(expected),
    `${message}: ${actual}, not ${expected}`,
  );
}

async function checkReport(report: Report): Promise<void> {
  assert.ok(report.tables.length > 0);
  for (const { head, rows } of report.tables) {
    for (const row of rows) {
      assert.equal(row.length, head.length);
      assert.ok(row.every((cell) => cell !== "" && !/NaN|undefined|Infinity/.test(cell)), row.join(" | "));
    }
  }
  assert.equal(report.data["origin"], report.origin);
  assert.doesNotMatch(JSON.stringify(report.data), /"(mean|ratioToTree|e2eMs)":null/);
  const svg = await svgOf(report);
  assert.ok(svg.startsWith("<svg "));
  for (const text of [report.title, ...report.origin.split("; ")]) assert.ok(svg.includes(text), text);
  assert.ok(!/NaN|undefined/.test(svg));
}

const modes = { ...common, workloads: [shortWorkload()], questions: 2, concurrency: [1, 2] } as const;

test("The same seed gives the same comparison of modes, another seed other questions", async () => {
  const small = { ...modes, questions: 1, concurrency: [1] };
  const first = await compareModes(small);
  assert.equal(JSON.stringify(first), JSON.stringify(await compareModes(small)));
  const [one, other] = ["test", "other"].map((seed) => questionsOf(shippedWorkload("chat"), 1, seed)[0]);
  assert.notEqual(one?.text, other?.text);
});

test("Each mode makes its calls, and what it took adds up and keeps its bound", async () => {
  const parts: string[] = [];
  const comparisons = await compareModes({ ...modes, onPart: (part) => parts.push(part) });
  assert.equal(parts.length, 6);
  for (const { concurrency, modes: [dense, tree, incremental] } of comparisons) {
    assert.ok(dense !== undefined && tree !== undefined && incremental !== undefined);
    assert.deepEqual([dense.calls, tree.calls, incremental.calls], [38, 26, 26]);
    assert.deepEqual([dense.engineRequests, tree.engineRequests], [38, 26]);
    assert.ok(incremental.engineRequests > 26, "nothing was warmed");
    assert.equal(tree.completionTokens, incremental.completionTokens);
    assert.equal(tree.promptTokens, incremental.promptTokens);
    assert.ok(dense.promptTokens > tree.promptTokens);
    for (const mode of [dense, tree, incremental]) {
      const { leaf, handOver, decode } = mode.pathMs;
      near(leaf + handOver + decode, mode.e2eMs.mean, `${mode.mode}: parts of the critical path`);
      assert.equal(mode.gpus, 6);
      assert.ok(mode.ttftMs.mean < mode.e2eMs.mean);
      assert.equal(mode.perQuestion.length, 2);
      if (concurrency === 1) assert.ok(mode.ratioToBound !== null && mode.ratioToBound >= 1);
      else assert.equal(mode.ratioToBound, null);
    }
    assert.equal(tree.ratioToTree, 1);
    assert.ok(dense.e2eMs.mean > tree.e2eMs.mean, "the dense graph is faster than the tree");
    if (concurrency !== 1) continue;
    assert.ok(incremental.e2eMs.mean <= tree.e2eMs.mean, "incremental prefill is slower than none");
    assert.ok(incremental.pathMs.handOver < tree.pathMs.handOver);
    assert.equal(tree.splicedFromCacheShare, 0);
    assert.ok(incremental.splicedFromCacheShare > 0.8);
  }
  await checkReport(modesReport(comparisons, "Simulated; a test", {}));
});

function trial(graph: Record<string, unknown>, serving: Serving): Promise<Trial> {
  const questions = questionsOf(shortWorkload(), 1, "lengths");
  return runTrial({ ...common, serving, graph, questions, concurrency: 1 });
}

test("Agents write as many tokens as their place in the layer says, on every engine and in both graphs", async () => {
  const [question] = questionsOf(shortWorkload(), 1, "lengths");
  assert.ok(question !== undefined);
  const layer = (layer: number, count: number) =>
    Array.from({ length: count }, (_, index) => question.answerTokens({ layer, index }));
  const lengths = (of: Trial) => of.runs[0]?.agents.map((agent) => agent.completionTokens);
  assert.deepEqual(lengths(await trial(dense991(), "vllm")), [
    ...layer(0, 9),
    ...layer(1, 9),
    ...layer(2, 1),
  ]);
  for (const serving of ["sglang-pd", "sglang", "vllm"] as const) {
    const tree = await trial(tree931(), serving);
    assert.equal(tree.gpus, serving === "sglang-pd" ? 6 : 3);
    assert.deepEqual(lengths(tree), [...layer(0, 9), ...layer(1, 3), ...layer(2, 1)]);
    assert.equal(tree.work.requests, 13);
    const read = tree.runs.reduce((sum, run) => sum + run.promptTokens, 0);
    assert.equal(tree.work.promptTokens, read, `${serving}: prompt tokens that the engines counted`);
    const cached = tree.runs.reduce((sum, run) => sum + run.cachedTokens, 0);
    assert.equal(tree.work.prefilledTokens, read - cached, `${serving}: prompt tokens that were computed`);
  }
});

test("A longer list of questions begins with the shorter one, and lengths have the median asked for", () => {
  const short = questionsOf(shippedWorkload("maths"), 3, "seed").map((question) => question.text);
  const questions = questionsOf(shippedWorkload("maths"), 400, "seed");
  assert.deepEqual(questions.slice(0, 3).map((question) => question.text), short);
  const lengths = questions.map((question) => question.answerTokens({ layer: 0, index: 0 })).sort((a, b) =>
    a - b
  );
  const median = lengths[200] ?? 0;
  assert.ok(median > 750 && median < 1080, `median ${median}`);
});

test("The second layer: incremental prefill saves most of what can be saved, and nothing beats the bound", async () => {
  const options = { ...common, questions: 1, maxTokens: 768, outputTokens: 32, chunkTokens: 256 };
  const figures = await measurePrefill(options);
  assert.deepEqual(figures.map(({ model, variant }) => `${model} ${variant}`), [
    ...["4b naive", "4b chunked", "4b incremental", "4b bound"],
    ...["8b naive", "8b chunked", "8b incremental", "8b bound"],
    ...["32b naive", "32b chunked", "32b incremental", "32b bound"],
  ]);
  for (const model of ["4b", "8b", "32b"]) {
    const of = (variant: string) =>
      figures.find((known) => known.model === model && known.variant === variant)?.layerMs.mean ?? NaN;
    assert.ok(of("bound") < of("incremental") && of("incremental") < of("naive"), model);
    assert.ok(of("bound") < of("chunked"), model);
    const savable = of("naive") - of("bound");
    assert.ok(of("naive") - of("incremental") > savable / 2, `${model}: less than half is saved`);
  }
  assert.equal(JSON.stringify(await measurePrefill(options)), JSON.stringify(figures));
  await checkReport(prefillReport(figures, "Simulated; a test", {}));
});

test("Steps of incremental prefill: all are measured by the same bound, and the best one is the fastest", async () => {
  const options = {
    ...common,
    workloads: [shortWorkload()],
    questions: 1,
    chunkTokens: [64, 1024],
  } as const;
  const sweeps = await sweepChunks(options);
  assert.equal(sweeps.length, 1);
  for (const { boundMs, off, self, fixed, best, selfToBest } of sweeps) {
    assert.deepEqual([off, self, ...fixed].map(({ pace }) => pace), ["off", "self", 64, 1024]);
    for (const pace of [off, self, ...fixed]) near(pace.ratioToBound * boundMs, pace.e2eMs, `${pace.pace}`);
    assert.equal(best.e2eMs, Math.min(...fixed.map((pace) => pace.e2eMs)));
    near(selfToBest * best.e2eMs, self.e2eMs, "self-clocked to best");
    assert.ok(self.e2eMs < off.e2eMs && selfToBest < 1.02, `self-clocked takes ${selfToBest} of the best`);
    const [small, large] = fixed;
    assert.ok((small?.engineRequests ?? 0) > (large?.engineRequests ?? 0));
  }
  assert.equal(JSON.stringify(await sweepChunks(options)), JSON.stringify(sweeps));
  await checkReport(chunkReport(sweeps, "Simulated; a test", {}));
});

test("An experiment ends when it is told to", async () => {
  const stop = new AbortController();
  const reason = new Error("enough");
  const options = { ...modes, signal: stop.signal, onPart: () => stop.abort(reason) };
  await assert.rejects(compareModes(options), reason);
});
