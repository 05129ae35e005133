import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../../base/clock.ts";
import { type ExitSetsOptions, measureExitSets } from "../../../../bench/experiments/exit_sets/exit_sets.ts";
import { setFigures } from "../../../../bench/experiments/exit_sets/set_figures.ts";
import { exitSetsReport } from "../../../../bench/report/exit_sets_report.ts";
import { Random } from "../../../../base/random.ts";
import { shortWorkload } from "../short_workload.ts";

const options: ExitSetsOptions = {
  workload: shortWorkload(),
  sets: 2,
  questions: 20,
  loads: [1, 4],
  play: 0,
  serving: "sglang-pd",
  seed: "test",
  clock: new SystemClock(),
  signal: new AbortController().signal,
};

test("sets of questions are costed as the router plays them: the same right answers, mean latencies within 3 %, tokens within 5 %", async () => {
  const { played } = await measureExitSets({ ...options, loads: [1], play: 2 });
  assert.ok(played.length >= 9);
  for (const { name, latency, tokens, right } of played) {
    assert.ok(Math.abs(latency - 1) < 0.03 && Math.abs(tokens - 1) < 0.05, `${name}: ${latency}, ${tokens}`);
    assert.equal(right.costed, right.played, name);
  }
});

test("every rule is put beside #1, chance and the oracle, the same for the same seed, and the report says what was tuned on what", async () => {
  const result = await measureExitSets(options);
  const few = { ...options, questions: 3, loads: [4] };
  assert.deepEqual(await measureExitSets(few), await measureExitSets(few));
  const [alone, loaded] = result.loads;
  assert.deepEqual([alone?.atOnce, loaded?.atOnce], [1, 4]);
  const rows = alone?.rows ?? [];
  const of = (name: string) => rows.find((row) => row.name.startsWith(name));
  assert.equal(rows[0]?.meanCut.value, 0);
  const oracle = of("oracle");
  for (const row of rows.slice(2)) {
    assert.ok(row.meanCut.value > (of("#2")?.meanCut.value ?? NaN), row.name);
    assert.ok(row.right <= (oracle?.right ?? 0), row.name);
    assert.equal(row.chance !== undefined, /agree|posterior/.test(row.name), row.name);
  }
  assert.ok((of("3 of 9")?.tokens ?? NaN) < (of("6 of 9")?.tokens ?? NaN));
  const report = exitSetsReport(result, "Simulated", { workload: "chat", sets: 2, questions: 20, play: 0 });
  assert.equal(report.tables.length, 4);
  assert.match(
    report.notes.join("\n"),
    /seeds test\/set 1, test\/set 2: nothing was tuned on them.*seed test\/learning/,
  );
});

test("cuts are of the means and of the 95th percentiles over all sets, beside the least and the greatest of the sets", () => {
  const set = (latencies: readonly number[], right = true) =>
    latencies.map((latencyMs) => ({ latencyMs, right, tokens: latencyMs, votes: 3 }));
  const dense = [set([100, 100]), set([200, 200])];
  const figures = setFigures(
    { name: "rule", outcomes: [set([10, 10]), set([40, 40], false)], chance: undefined },
    { dense, tree: dense, random: new Random("test") },
  );
  assert.ok(Math.abs(figures.meanCut.value - (1 - 100 / 600)) < 1e-12);
  assert.deepEqual([figures.meanCut.sets.low, figures.meanCut.sets.high].map((one) => one.toFixed(3)), [
    "0.800",
    "0.900",
  ]);
  assert.equal(figures.difference, -0.5);
  assert.deepEqual(figures.reached, { mean: true, p95: true, right: false });
  assert.ok(Math.abs(figures.spared.dense - (1 - 100 / 600)) < 1e-12);
});

test("a stop ends the costing", async () => {
  const signal = AbortSignal.abort(new Error("stopped"));
  await assert.rejects(measureExitSets({ ...options, signal }), /stopped/);
});
