import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { scriptedQuestions } from "../../../bench/experiments/scripted_answers.ts";
import { playTopology } from "../../../bench/experiments/topology/play_topology.ts";
import type { TopologySearch } from "../../../bench/experiments/topology/topology.ts";
import { workloadText } from "../../../bench/experiments/workloads/shipped_workloads.ts";
import { readWorkload } from "../../../bench/experiments/workloads/workload_file.ts";
import { loadCheckedConfig } from "../../../cfgs/load/load.ts";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { fakeIo } from "../fake_io.ts";

const SHORT = workloadText("chat").replace('"median": 300', '"median": 30');

/** Runs the command in a folder that has a workload of short answers. */
async function topology(cwd: string, ...args: string[]) {
  writeFileSync(join(cwd, "short.jsonc"), SHORT);
  const io = fakeIo({ cwd, clock: new SystemClock() });
  const code = await runCommand(
    [benchCommand],
    ["bench", "topology", "--workload", "short.jsonc", ...args],
    io,
  );
  return { code, out: io.out.text, err: io.err.text };
}

test("what is recommended, run with fresh questions from its written configuration, comes out as predicted", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-topology-"));
  try {
    const files = ["--write", "canopy.jsonc", "--json", "t.json"];
    const grid = ["--depth", "2", "--width", "3", "--exit", "agree:2"];
    const { code, out } = await topology(cwd, "--questions", "80", "--play", "6", ...grid, ...files);
    assert.equal(code, 0);
    assert.match(
      out,
      /^Right answers against what they cost[^\n]*\nSimulated, not measured: cost model of 6 H200 GPUs/,
    );
    assert.match(
      out,
      /short, 7 candidates: Pareto's front of right answers and mean latency on 40 questions/,
    );
    assert.match(
      out,
      /\nRecommended: 3-1 [\s\S]*\nright answers .* yes\nmean latency .* yes\ntokens written .* yes\n/,
    );
    const { simulated, results } = JSON.parse(readFileSync(join(cwd, "t.json"), "utf8")) as {
      simulated: boolean;
      results: TopologySearch;
    };
    assert.equal(simulated, true);
    const written = readFileSync(join(cwd, "canopy.jsonc"), "utf8");
    assert.match(written, /^\/\/ Recommended by canopy bench topology: 3-1 /);
    assert.match(written, /\/\/ Simulated, not measured: .*; seed canopy; workload short\.\n/);
    assert.match(written, /\/\/ Predicted from n = 40 other questions \(95 % interval each\)/);
    const { config } = loadCheckedConfig({ path: join(cwd, "canopy.jsonc"), env: {} });
    const predicted = results.recommended?.next;
    assert.ok(predicted !== undefined);
    const played = await playTopology({
      serving: "sglang-pd",
      seed: "another",
      graph: { ...config.graphs["moa"] },
      questions: scriptedQuestions(readWorkload(SHORT, { name: "short", path: "short" }), 6, "another"),
      concurrency: 1,
      signal: new AbortController().signal,
    }, predicted);
    assert.deepEqual(played.map(({ figure, within }) => [figure, within]), [
      ["right", true],
      ["latencyMs", true],
      ["tokens", true],
    ]);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

test("a budget that nothing keeps recommends nothing and ends with 1; unknown rules are named", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-topology-"));
  try {
    const tight = await topology(
      cwd,
      "--questions",
      "20",
      "--depth",
      "1",
      "--budget-ms",
      "1",
      "--write",
      "c.jsonc",
    );
    assert.equal(tight.code, 1);
    assert.match(tight.out, /Nothing is recommended: no candidate is within a mean latency of 1\.0 ms/);
    assert.throws(() => readFileSync(join(cwd, "c.jsonc")));
    const unknown = await topology(cwd, "--exit", "tau");
    assert.equal(unknown.code, 2);
    assert.match(unknown.err, /Option --exit must be one of none, agree:K, .*current value is "tau"/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});
