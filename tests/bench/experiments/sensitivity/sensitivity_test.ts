import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../../base/clock.ts";
import {
  assumedQuestions,
  ASSUMPTION_CHANGES,
  BASE_ASSUMPTIONS,
} from "../../../../bench/experiments/sensitivity/assumptions.ts";
import { measureSensitivity } from "../../../../bench/experiments/sensitivity/sensitivity.ts";
import { shippedWorkload } from "../../../../bench/experiments/workloads/shipped_workloads.ts";
import { htmlOf } from "../../../../bench/report/html.ts";
import { markdownOf } from "../../../../bench/report/markdown.ts";
import { sensitivityReport } from "../../../../bench/report/sensitivity_report.ts";

const workload = shippedWorkload("paper");
const clock = new SystemClock();
const options = { workload, questions: 2, seed: "test", clock, signal: new AbortController().signal };

test("each assumption changes what it names, and nothing else of the lengths", () => {
  const lengths = (change: Partial<typeof BASE_ASSUMPTIONS>) => {
    const [question] = assumedQuestions(workload, { ...BASE_ASSUMPTIONS, ...change }, {
      count: 1,
      seed: "test",
    });
    assert.ok(question !== undefined);
    const places = [[0, 0, "4b"], [0, 2, "32b"], [1, 0, "4b"], [2, 0, "32b"]] as const;
    return [
      question.tokens,
      ...places.map(([layer, index, model]) => question.answerTokens({ layer, index, model })),
    ];
  };
  const [tokens, small, large, second, root] = lengths({});
  assert.ok(small !== undefined && large !== undefined && second !== undefined && root !== undefined);
  const near = (found: readonly (number | undefined)[], expected: readonly (number | undefined)[]) => {
    for (const [at, value] of found.entries()) {
      assert.ok(Math.abs(value! - expected[at]!) <= 1, `${found}: ${expected}`);
    }
  };
  near(lengths({ small: 3 }), [tokens, 3 * small, large, 3 * second, root]);
  near(lengths({ later: 0.5 }), [tokens, small, large, second / 2, root / 2]);
  assert.deepEqual(lengths({ limit: 100 }), [tokens, 100, 100, 100, 100]);
  assert.deepEqual(lengths({ sigma: 0 }), [tokens, 3_000, 3_000, 3_000, 3_000]);
  assert.deepEqual(new Set(lengths({ correlation: 1 }).slice(1)).size, 1);
  assert.ok(Math.max(...lengths({ sigma: 5, small: 1000 })) <= 65_535);
});

test("the table has the base and every assumption alone; searches keep what the paper states, and say what is not reached", async () => {
  const parts: string[] = [];
  const result = await measureSensitivity({ ...options, onPart: (part) => parts.push(part) });
  assert.deepEqual(result.base.changes, []);
  assert.deepEqual(result.alone.map(({ changes }) => changes), ASSUMPTION_CHANGES.map(({ name }) => [name]));
  assert.equal(parts[0], "base");
  assert.equal(new Set(parts).size, parts.length, "something was computed twice");
  const of = (name: RegExp) => result.alone.find(({ changes }) => name.test(changes[0] ?? ""))!;
  assert.ok(of(/^bound/).cuts["#4"] > of(/as printed/).cuts["#4"]);
  assert.equal(of(/^bound/).cuts["#3"], result.base.cuts["#3"]);
  assert.ok(of(/1,000 tokens/).denseMs < result.base.denseMs);
  for (const row of [result.base, ...result.alone]) {
    for (const mode of ["#2", "#3", "#4"] as const) {
      assert.ok(row.cuts[mode] < 1 && row.greatest[mode] >= row.cuts[mode] - 0.5, row.changes.join());
    }
  }
  const against = new Set(
    ASSUMPTION_CHANGES.filter((change) => change.against === "stated").map(({ name }) => name),
  );
  for (const { mode, share, asStated, reached, steps } of result.searches) {
    assert.equal(reached, (steps.at(-1)?.cuts[mode] ?? 0) >= share);
    const cuts = steps.map((step) => step.cuts[mode]);
    assert.deepEqual(cuts, [...cuts].sort((a, b) => a - b), "a step made the cut smaller");
    const names = steps.at(-1)?.changes ?? [];
    if (asStated) assert.ok(!names.some((name) => against.has(name)));
    assert.ok(!names.some((name) => name.startsWith("bound")));
  }
  assert.deepEqual(
    result.searches.filter(({ asStated }) => asStated).map(({ share }) => share),
    [0.62, 0.76, 0.9],
  );
  const report = sensitivityReport(result, "Simulated; a test", { workload: "paper" });
  const markdown = markdownOf(report);
  assert.match(markdown, /Simulated; a test/);
  assert.match(markdown, /\| base +\|/);
  assert.match(markdown, /90 % of \\#4, one question at a time: (not )?reached/);
  const html = await htmlOf(report);
  assert.ok(html.includes("Simulated; a test") && !/NaN|undefined/.test(html));
});

test("the same seed gives the same figures, and a stop that comes in between ends the table", async () => {
  const small = { ...options, questions: 1 };
  assert.deepEqual(await measureSensitivity(small), await measureSensitivity(small));
  const stop = new AbortController();
  // As a signal of the process does, whose turn comes when the table lets it.
  const onPart = () => void clock.timer(0, () => stop.abort(new Error("stopped")));
  await assert.rejects(measureSensitivity({ ...small, signal: stop.signal, onPart }), /stopped/);
});
