import assert from "node:assert/strict";
import { test } from "node:test";
import { shippedWorkload } from "../../../bench/experiments/workloads/shipped_workloads.ts";
import { measureStaircase } from "../../../bench/experiments/staircase.ts";
import { staircaseReport } from "../../../bench/report/staircase_report.ts";

test("a staircase of all layers has its first word at least 80 % sooner than mode #3, simulated, and says what it costs", async () => {
  const figures = await measureStaircase({
    serving: "sglang-pd",
    seed: "test",
    slots: "declared",
    signal: new AbortController().signal,
    workloads: [shippedWorkload("chat")],
    questions: 1,
    concurrency: 1,
  });
  const [single, tree, root, all] = figures;
  assert.deepEqual(figures.map(({ way }) => way), ["single", "tree", "root", "all"]);
  assert.ok(single && tree && root && all);
  assert.ok(all.sooner >= 0.8, `${all.sooner}`);
  assert.ok(root.sooner > 0.2 && root.sooner < all.sooner, `${root.sooner}`);
  assert.ok(single.ttftMs.mean < all.ttftMs.mean);
  assert.equal(tree.stallMs.mean, 0);
  assert.ok(all.promptTokens > root.promptTokens && root.promptTokens > tree.promptTokens);
  assert.equal(all.completionTokens, tree.completionTokens, "every agent writes as much as ever");
  const report = staircaseReport(figures, "Simulated, not measured", {});
  for (const { head, rows } of report.tables) {
    for (const row of rows) {
      assert.equal(row.length, head.length);
      assert.ok(row.every((cell) => !/NaN|undefined/.test(cell)), row.join(" | "));
    }
  }
  assert.match(report.notes.join("\n"), /nothing here tells what a staircase does to the quality/);
  assert.match(JSON.stringify(report.plot), /staircase of all layers/);
});
