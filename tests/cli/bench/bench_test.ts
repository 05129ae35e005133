import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock, VirtualClock } from "../../../base/clock.ts";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { createSimulator } from "../../../simulator/simulator.ts";
import { type FakeIo, fakeIo } from "../fake_io.ts";

/** Runs `canopy bench` in a folder of its own; gives what it printed and the files it wrote. */
async function bench(args: readonly string[], options: Parameters<typeof fakeIo>[0] = {}) {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-bench-"));
  try {
    const io: FakeIo = fakeIo({ ...options, cwd });
    const work = () => runCommand([benchCommand], ["bench", ...args], io);
    const code = io.clock instanceof VirtualClock ? await io.clock.run(work) : await work();
    const files = Object.fromEntries(
      readdirSync(cwd).sort().map((name) => [name, readFileSync(join(cwd, name), "utf8")]),
    );
    return { code, out: io.out.text, err: io.err.text, files };
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

/** The clock of a world is its own; the command's must not be asked for its time. */
const system = {
  clock: {
    now: () => NaN,
    unixEpochMs: 0,
    sleep: () => Promise.reject(new Error("waits")),
    timer: () => () => {},
  },
};

test("canopy bench run prints tables and writes JSON and SVG that say that they are simulated", async () => {
  const args = ["run", "--workload", "chat", "--questions", "1", "--json", "a.json", "--svg", "a.svg"];
  const { code, out, err, files } = await bench(args, system);
  assert.equal(code, 0);
  assert.match(out, /^End-to-end latency by mode\nSimulated, not measured: cost model of 6 H200 GPUs/);
  assert.match(out, /\n#1 dense 9-9-1 .*\n#2 tree 9-3-1 .* 1\.000 .*\n#3 tree, incremental prefill /);
  assert.match(err, /^chat, one question at a time: #1 dense 9-9-1\n[\s\S]*Wrote a\.json\nWrote a\.svg\n$/);
  const json = JSON.parse(files["a.json"] ?? "");
  assert.equal(json.experiment, "run");
  assert.equal(json.simulated, true);
  assert.equal(json.results[0].modes.length, 3);
  assert.ok(files["a.svg"]?.startsWith("<svg ") && files["a.svg"].includes("Simulated, not measured"));
});

test("canopy bench run takes a workload file beside names, and says what it cannot play", async () => {
  const printed = await bench(["workloads", "--print", "chat"]);
  assert.equal(printed.code, 0);
  const folder = mkdtempSync(join(tmpdir(), "canopy-bench-"));
  try {
    const file = join(folder, "short.jsonc");
    writeFileSync(file, printed.out.replace('"max_tokens": 8192', '"max_tokens": 20'));
    const shown = await bench(["workloads", file]);
    assert.equal(shown.code, 0);
    assert.match(shown.out, /short: short questions[^]*answers .* at most 20 tokens/);
    const { code, err, files } = await bench(
      ["run", "--workload", file, "--questions", "1", "--json", "a.json"],
      system,
    );
    assert.equal(code, 0, err);
    const { settings, results } = JSON.parse(files["a.json"] ?? "");
    assert.equal(results[0].workload, "short");
    assert.equal(results[0].modes[1].completionTokens, 13 * 20);
    assert.equal(settings.workloads[0].answers[0].max_tokens, 20);
    writeFileSync(file, printed.out.replace('"correlation"', '"corelation"'));
    const wrong = await bench(["run", "--workload", file], system);
    assert.notEqual(wrong.code, 0);
    assert.match(
      wrong.err,
      /short\.jsonc:\d+:\d+: corelation is not a known key; did you mean "correlation"/,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
  const long = await bench(["run", "--workload", "reasoning"], system);
  assert.notEqual(long.code, 0);
  assert.match(
    long.err,
    /Workload reasoning cannot be played in the dense graph: question 1 needs \d+ tokens/,
  );
  const unknown = await bench(["exit", "--workload", "mathz"], system);
  assert.equal(unknown.code, 2);
  assert.match(unknown.err, /no workload has this name; did you mean "maths"/);
  const schema = await bench(["workloads", "--schema"]);
  assert.equal(JSON.parse(schema.out).title, "Canopy workload");
});

test("canopy bench exit --sets costs rules of whole runs over several sets, and refuses what it does not cost", async () => {
  const args = ["exit", "--sets", "2", "--questions", "2", "--workload", "chat", "--json", "sets.json"];
  const { code, out, files } = await bench(args, { clock: new SystemClock() });
  assert.equal(code, 0);
  assert.match(out, /^Early exit of whole runs, over sets of questions\nSimulated, not measured/);
  assert.match(out, /chat, 2 × 2 questions, 32 questions at a time: answers and tokens/);
  const { experiment, simulated, results } = JSON.parse(files["sets.json"] ?? "");
  assert.deepEqual([experiment, simulated, results.loads.length, results.played], ["exit sets", true, 2, []]);
  for (
    const [given, message] of [
      [["--sets", "2", "--serving", "vllm"], /--sets costs sglang-pd and sglang: --serving is vllm/],
      [["--sets", "2", "--slots", "declared"], /--sets has answers in order of completion/],
      [["--sets", "2", "--engine-version", "0.5.9"], /--sets costs no version of an engine/],
      [["--sets", "2", "--workload", "chat", "--workload", "maths"], /--sets takes one workload/],
      [["--play", "2"], /--play is for --sets/],
    ] as const
  ) {
    const refused = await bench(["exit", ...given], system);
    assert.equal(refused.code, 2);
    assert.match(refused.err, message);
  }
});

test("canopy bench sensitivity prints which cuts come out, for one workload", async () => {
  const args = ["sensitivity", "--workload", "maths", "--questions", "1", "--json", "s.json"];
  const { code, out, files } = await bench(args, { clock: new SystemClock() });
  assert.equal(code, 0);
  assert.match(out, /^Assumptions that the paper's cuts need\nSimulated, not measured/);
  assert.match(out, /maths, 1 questions: cut of the mean latency/);
  const { experiment, simulated, results } = JSON.parse(files["s.json"] ?? "");
  assert.deepEqual([experiment, simulated, results.questions], ["sensitivity", true, 1]);
});

test("canopy bench prefill and chunk print what they found", async () => {
  const prefill = await bench(
    ["prefill", "--questions", "1", "--max-tokens", "128", "--serving", "sglang"],
    system,
  );
  assert.equal(prefill.code, 0);
  assert.match(
    prefill.out,
    /cost model of 3 H200 GPUs; SGLang, one GPU per model; answers in order of completion; seed canopy/,
  );
  assert.match(prefill.out, /\n32b +lower bound /);
  const args = ["chunk", "--questions", "1", "--workload", "chat", "--step", "256", "--slots", "completion"];
  const chunk = await bench(args, system);
  assert.equal(chunk.code, 0);
  assert.match(chunk.out, /answers in order of completion/);
  assert.match(chunk.out, /\nno incremental prefill .*\n256 tokens \(best\) .*\nsets itself /);
});

test("canopy bench load measures an endpoint; a failed request makes it end with 1", async () => {
  for (const failures of [0, 2]) {
    const clock = new VirtualClock();
    const engine = createSimulator({ engine: "vllm", models: ["org/m"], cost: "4b", clock, seed: "x" });
    const transport = new MemoryTransport(() => (request, signal) => engine.handle(request, signal));
    const args = ["load", "--requests", "6", "--concurrency", "2", "--warm-up", "0", "--output-tokens", "8"];
    if (failures > 0) engine.inject({ kind: "status_500", count: failures });
    const { code, out, err, files } = await bench([...args, "--json", "load.json"], { clock, transport });
    assert.equal(code, failures === 0 ? 0 : 1, err);
    assert.match(
      out,
      /Simulated engines, so that no figure says anything about GPUs; in real time: 6 requests to org\/m at http:\/\/127\.0\.0\.1:8000, 2 at a time/,
    );
    assert.match(out, /\ntime to first token +\d/);
    assert.match(err, /^1 of 6 requests\n[\s\S]*6 of 6 requests\nWrote load\.json\n$/);
    const json = JSON.parse(files["load.json"] ?? "");
    assert.deepEqual([json.completed, json.failed, json.model_id], [6 - failures, failures, "org/m"]);
    assert.equal(/2 failed: status 500/.test(out), failures > 0);
  }
});

test("Wrong usage of canopy bench is one sentence", async () => {
  const cases: [string[], RegExp][] = [
    [["rum"], /Unknown benchmark rum: did you mean run\?/],
    [
      ["run", "--workload", "chess"],
      /--workload chess: there is no such file, and no workload has this name \(workloads: chat, maths, documents, /,
    ],
    [["run", "--concurrency", "0"], /--concurrency must be a whole number from 1 to 10000/],
    [["chunk", "--step", "x"], /--step must be a whole number from 1 to 65536: current value is "x"/],
    [["all"], /Needs the folder to write to/],
    [["run", "twice"], /Unexpected argument "twice"/],
  ];
  for (const [args, message] of cases) {
    const { code, out, err } = await bench(args, system);
    assert.equal(code, 2, args.join(" "));
    assert.equal(out, "");
    assert.match(err, message);
    assert.equal(err.trim().split("\n").length, 1);
  }
  const help = await bench(["--help"], system);
  assert.equal(help.code, 0);
  for (const name of ["run", "prefill", "chunk", "placing", "all", "load"]) {
    assert.match(help.out, new RegExp(`\n  ${name} `));
  }
  assert.equal((await bench([], system)).code, 2);
  assert.match((await bench(["load", "--help"], system)).out, /Usage: canopy bench load \[options\]/);
});

test("canopy bench says which file it cannot write, and which server does not answer", async () => {
  const args = ["prefill", "--questions", "1", "--max-tokens", "16", "--json", "no/such/folder/a.json"];
  const unwritable = await bench(args, system);
  assert.equal(unwritable.code, 1);
  assert.match(unwritable.err, /canopy bench: Cannot write no\/such\/folder\/a\.json: /);
  const unreachable = await bench(["load", "--url", "http://nowhere:1"], system);
  assert.equal(unreachable.code, 1);
  assert.match(unreachable.err, /canopy bench: Cannot reach a server at http:\/\/nowhere:1/);
});

/** A cost file in which a decode step takes `stepMs`, and a prompt next to nothing. */
function costText(stepMs: number): string {
  return JSON.stringify({
    format: "canopy-cost/1",
    prefill: { fixed_ms: 1, ms_per_token: 0.001, ms_per_pair_of_tokens: 0, bend: 2 },
    decode: { fixed_ms: stepMs, ms_per_sequence: 0, ms_per_context_token: 0 },
    request_ms: 0,
    step_ms: 0,
    sequence_ms: 0,
    kv_tokens: 1_000_000,
    kv_bytes_per_token: 1000,
  });
}

test("canopy bench hedge shows runs with a slow worker with second attempts and without, and refuses what is no hedge", async () => {
  const few = ["--questions", "24", "--clients", "2", "--policy", "round_robin", "--seed", "few"];
  const args = ["hedge", ...few, "--hedge", "none", "--hedge", "p70/0.4", "--json", "a.json"];
  const { code, out, err, files } = await bench(args, system);
  assert.equal(code, 0, err);
  assert.match(out, /Simulated, not measured: .*; 24 questions, 2 at a time; seed few/);
  assert.match(out, /one of the four is always 4 times as slow/);
  assert.match(out, /round_robin +none .* 0\.0 % +– +0\.0 %/);
  assert.match(out, /the texts of all rows are the same/);
  const { simulated, settings, results } = JSON.parse(files["a.json"] ?? "");
  assert.deepEqual([simulated, settings.hedges], [true, ["none", "p70/0.4"]]);
  assert.deepEqual(
    results.map(({ straggling, hedge }: Record<string, string>) => [straggling, hedge]),
    ["now and then", "always"].flatMap((way) => [[way, "none"], [way, "p70/0.4"]]),
  );
  for (const wrong of ["p95", "p71/0.1", "p95/2"]) {
    const refused = await bench(["hedge", "--hedge", wrong], system);
    assert.notEqual(refused.code, 0);
    assert.match(refused.err, new RegExp(`"${wrong}" is not after/max_share, such as p95/0\\.05: `));
  }
});

test("simulated benches take the cost of models from a file of bench calibrate, and say so", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-bench-"));
  try {
    const [slow, short] = [join(folder, "slow.json"), join(folder, "short.jsonc")];
    writeFileSync(slow, costText(500));
    const { out: chat } = await bench(["workloads", "--print", "chat"]);
    writeFileSync(short, chat.replace('"max_tokens": 8192', '"max_tokens": 6'));
    const workload = ["--workload", short, "--questions", "1"];
    const asked: readonly (readonly [string, readonly string[]])[] = [
      ["run", workload],
      ["chunk", [...workload, "--step", "64"]],
      ["staircase", workload],
      ["prefill", ["--questions", "1", "--max-tokens", "8", "--output-tokens", "6"]],
      ["placing", ["--percent", "1", "--policy", "random"]],
    ];
    for (const [name, args] of asked) {
      const { code, out, err } = await bench([name, ...args, "--cost", slow], system);
      assert.equal(code, 0, err);
      const words = name === "placing"
        ? "cost model of servers as "
        : "cost model of 6 H200 GPUs, but 4b as ";
      assert.ok(out.includes(words + slow), out);
      // Six tokens at half a second each, at least once one behind the other.
      assert.match(out, / (?:2\.5|[3-9]|\d\d)\d*(?:\.\d+)? s\b/, name);
    }
    const one = await bench(["prefill", ...asked[3]![1], "--cost", `8b=${slow}`, "--json", "a.json"], system);
    const { settings } = JSON.parse(one.files["a.json"] ?? "");
    assert.deepEqual([settings.costNames, settings.costs["8b"].d0], [{ "8b": slow }, 500]);
    for (
      const name of [
        "run",
        "chunk",
        "staircase",
        "prefill",
        "placing",
        "exit",
        "tau",
        "sensitivity",
        "topology",
      ]
    ) {
      const { code, err } = await bench([name, "--cost", "none.json"], system);
      assert.notEqual(code, 0);
      assert.match(
        err,
        /Option --cost must be one of 4b, 8b, 32b, or a file of canopy bench calibrate: cannot read/,
      );
    }
    const { err } = await bench(["run", "--cost", `70b=${slow}`], system);
    assert.match(err, /Option --cost names "70b", which is no model here; there are 4b, 8b, 32b/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
