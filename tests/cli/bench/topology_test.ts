import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
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
function topology(cwd: string, ...args: string[]) {
  writeFileSync(join(cwd, "short.jsonc"), SHORT);
  return asked(cwd, "--workload", "short.jsonc", ...args);
}

async function asked(cwd: string, ...args: string[]) {
  const io = fakeIo({ cwd, clock: new SystemClock() });
  const code = await runCommand(
    [benchCommand],
    ["bench", "topology", ...args],
    io,
  );
  return { code, out: io.out.text, err: io.err.text };
}

test("what is recommended, run with fresh questions from its written configuration, comes out as predicted", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-topology-"));
  try {
    const files = ["--write", "canopy.jsonc", "--json", "t.json"];
    const grid = ["--depth", "2", "--width", "3", "--exit", "agree:2"];
    const { code, out } = await topology(
      cwd,
      "--questions",
      "80",
      "--play",
      "5",
      "--serving",
      "sglang",
      ...grid,
      ...files,
    );
    assert.equal(code, 0);
    assert.match(
      out,
      /^Right answers against what they cost[^\n]*\nSimulated, not measured: cost model of 3 H200 GPUs/,
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
    assert.match(written, /\/\/ Simulated, not measured: .*; seed canopy; questions of short\.\n/);
    assert.match(written, /\/\/ Predicted from n = 40 other questions \(95 % interval each\)/);
    const { config } = loadCheckedConfig({ path: join(cwd, "canopy.jsonc"), env: {} });
    const predicted = results.recommended?.next;
    assert.ok(predicted !== undefined);
    const played = await playTopology({
      serving: "sglang",
      seed: "another",
      graph: { ...config.graphs["moa"] },
      questions: scriptedQuestions(readWorkload(SHORT, { name: "short", path: "short" }), 5, "another"),
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

/** An evaluation of two models, of which the large one is right more often and slower; `repeats` answers each. */
function records(questions: number, repeats: number): string {
  const random = new Random("records");
  const record = (question: number, mode: string, repeat: number) => {
    const right = random.next() < (mode === "single:large" ? 0.8 : 0.6);
    return {
      set: "gsm8k",
      question: `${question}`,
      mode,
      repeat,
      outcome: right ? "right" : "wrong",
      stated: right ? "1" : `${2 + random.int(50)}`,
      unchecked: null,
      latencyMs: 1,
      promptTokens: 30,
      completionTokens: 25 + random.int(20),
    };
  };
  const all = Array.from(
    { length: questions },
    (_, question) =>
      ["small", "single:large", "moa"].flatMap((mode) =>
        Array.from({ length: repeats }, (_, repeat) => ({ record: record(question, mode, repeat) }))
      ),
  ).flat();
  return [{ settings: JSON.stringify({ simulated: true }) }, ...all].map((line) =>
    `${JSON.stringify(line)}\n`
  ).join("");
}

test("recorded answers are searched as well; more agents than answers, and costs that nobody knows, are refused", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-topology-"));
  try {
    writeFileSync(join(cwd, "r.jsonl"), records(60, 3));
    const answers = ["--answers", "r.jsonl", "--cost", "small=4b", "--cost", "large=32b"];
    const more = [
      "--depth",
      "1",
      "--depth",
      "2",
      "--exit",
      "none",
      "--exit",
      "agree:2",
      "--write",
      "c.jsonc",
    ];
    const { code, out } = await asked(cwd, ...answers, ...more, "--play", "5", "--serving", "sglang");
    assert.equal(code, 0, out);
    assert.match(out, /cost model of 2 H200 GPUs; SGLang, one GPU per model/);
    assert.match(out, /r\.jsonl, 10 candidates: .* on 27 questions, and what it comes to on 28 others/);
    assert.match(
      out,
      /Answers: agents that read nobody give those that simulated engines gave in r\.jsonl, .*n = 3/,
    );
    assert.match(out, /next run of 5 +played +within\n/);
    const { config } = loadCheckedConfig({ path: join(cwd, "c.jsonc"), env: {} });
    assert.ok(Object.keys(config.models).every((name) => name === "small" || name === "large"));
    const wide = await asked(cwd, ...answers, "--width", "9");
    assert.match(
      wide.err,
      /Option --width 9 needs 9 recorded answers of each model to each question, and there are 3/,
    );
    const unknown = await asked(cwd, "--answers", "r.jsonl", "--model", "small");
    assert.match(unknown.err, /Nothing says what small takes: add --cost small=SIZE/);
    const few = await asked(cwd, ...answers, "--questions", "20", "--workload", "chat");
    assert.match(few.err, /Option --answers goes without --workload/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});
