import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DATA_SETS } from "../../../bench/datasets/catalog.ts";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { EVAL_OPTIONS } from "../../../cli/bench/eval/eval_options.ts";
import { experimentJsonSchema, readExperiment } from "../../../cli/bench/eval/experiment_file.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { fakeIo } from "../fake_io.ts";
import { evaluated } from "./evaluated.ts";

/** Gives a folder with an experiment in a folder of its own. */
async function inFolder(experiment: unknown, use: (cwd: string) => Promise<void>): Promise<void> {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-experiment-"));
  try {
    mkdirSync(join(cwd, "exp"));
    const text = typeof experiment === "string" ? experiment : JSON.stringify(experiment);
    writeFileSync(join(cwd, "exp", "x.jsonc"), text);
    await use(cwd);
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

const jsonAt = (...path: string[]) => JSON.parse(readFileSync(join(...path), "utf8"));
const FILE = ["--experiment", "exp/x.jsonc"];

test("an experiment file asks what the same options ask, and its report has its text and the same hash", async () => {
  const text = `{ // two questions
  "$schema": "./experiment.schema.json",
  "sets": ["gsm8k"], "samples": 2, "mode": "org/m", "max_tokens": 16,
  "json": "e.json", "markdown": "e.md", "records": "r.jsonl",
}\n`;
  await inFolder(text, async (cwd) => {
    const { code, err, out } = await evaluated(cwd, FILE);
    assert.equal(code, 0, err);
    assert.match(out, /^experiment file exp\/x\.jsonc, as it stands$/m);
    const report = jsonAt(cwd, "exp", "e.json");
    assert.deepEqual(report.experimentFile, { name: "exp/x.jsonc", overrides: [], text });
    assert.match(report.settings.sha256, /^[0-9a-f]{64}$/);
    assert.ok(out.includes(report.settings.sha256));
    const markdown = readFileSync(join(cwd, "exp", "e.md"), "utf8");
    assert.ok(markdown.includes(`## Experiment file exp/x.jsonc\n\n\`\`\`\n${text}\`\`\`\n`), markdown);
    const { settings } = JSON.parse(readFileSync(join(cwd, "exp", "r.jsonl"), "utf8").split("\n")[0]!);
    assert.equal(JSON.parse(settings).experiment, report.settings.sha256);
    const options = ["gsm8k", "--samples", "2", "--mode", "org/m", "--max-tokens", "16", "--json", "f.json"];
    assert.equal((await evaluated(cwd, options)).code, 0);
    const typed = jsonAt(cwd, "f.json");
    assert.deepEqual([typed.settings.sha256, typed.experimentFile], [report.settings.sha256, undefined]);
  });
});

test("options go before the file's members, the report says which, and records of another hash are refused", async () => {
  const experiment = { sets: ["gsm8k"], samples: 2, mode: ["org/m"], config: ["moa-9-3-1"], simulate: true };
  await inFolder(experiment, async (cwd) => {
    const changed = ["--url", "http://s", "--samples", "1", "--records", "r.jsonl", "--json", "e.json"];
    const { code, err, requests } = await evaluated(cwd, [...FILE, ...changed]);
    assert.deepEqual([code, requests], [0, 1], err);
    const { experimentFile, settings } = jsonAt(cwd, "e.json");
    assert.deepEqual(experimentFile.overrides, [
      "--samples 1 (the file: 2)",
      "--url http://s (not in the file)",
      'without config (the file: ["moa-9-3-1"])',
      "without simulate (the file: true)",
    ]);
    const more = await evaluated(cwd, [...FILE, ...changed, "--samples", "2", "--concurrency", "3"]);
    assert.notEqual(more.code, 0);
    assert.match(
      more.err,
      /Cannot go on with .*r\.jsonl: it was begun with sets\.gsm8k "1 question, sha256 \w+", concurrency 1, and now it is sets\.gsm8k "2 questions, sha256 \w+", concurrency 3; name another file/,
    );
    const loose = await evaluated(cwd, [
      "gsm8k",
      "--samples",
      "1",
      "--mode",
      "org/m",
      "--records",
      "r.jsonl",
    ]);
    assert.ok(
      loose.err.includes(`it was begun with experiment "${settings.sha256}", and now it is experiment none`),
    );
    const again = await evaluated(cwd, [...FILE, ...changed], { env: { NUM_SAMPLES: "7" } });
    assert.deepEqual([again.code, again.requests], [0, 0], again.err);
    assert.match(
      again.err,
      /^Not read from the environment, since an experiment file says all: NUM_SAMPLES$/m,
    );
  });
});

test("parts of an experiment keep records beside those of the whole, write no reports, and are merged", async () => {
  const experiment = { sets: ["gsm8k"], samples: 2, mode: ["org/m"], records: "r.jsonl", json: "e.json" };
  await inFolder(experiment, async (cwd) => {
    const part = (env: Record<string, string>) => evaluated(cwd, [...FILE, "--shard", "auto"], { env });
    const slurm = { SLURM_ARRAY_TASK_MIN: "1", SLURM_ARRAY_TASK_MAX: "3", SLURM_ARRAY_TASK_COUNT: "3" };
    const asked = [
      await part({ ...slurm, SLURM_ARRAY_TASK_ID: "1" }),
      await part({ JOB_COMPLETION_INDEX: "1", CANOPY_SHARD_COUNT: "3" }),
      // A task that is submitted again alone; there are two questions for three.
      await part({ SLURM_ARRAY_TASK_ID: "3", SLURM_ARRAY_TASK_COUNT: "1", CANOPY_SHARD_COUNT: "3" }),
    ];
    assert.deepEqual(asked.map(({ code, requests }) => [code, requests]), [[0, 1], [0, 1], [0, 0]]);
    assert.match(asked[1]!.err, /^Part 2 of 3\nRecords of this part: exp\/r\.2-of-3\.jsonl$/m);
    assert.match(asked[1]!.err, /^Not written, since this is a part: json of exp\/x\.jsonc$/m);
    assert.equal(existsSync(join(cwd, "exp", "e.json")), false);
    const parts = [1, 2, 3].map((one) => `exp/r.${one}-of-3.jsonl`);
    const merged = await evaluated(cwd, ["exp/r.jsonl", ...parts], { command: "merge" });
    assert.equal(merged.out, "2 answers of 3 files: exp/r.jsonl\n", merged.err);
    const whole = await evaluated(cwd, FILE);
    assert.deepEqual([whole.code, whole.requests], [0, 0], whole.err);
    assert.equal(jsonAt(cwd, "exp", "e.json").figures[0].answers, 2);
  });
});

test("--shard auto is refused where no job says which part it is", async () => {
  const task = { SLURM_ARRAY_TASK_ID: "3" };
  const refused: readonly (readonly [Record<string, string>, RegExp])[] = [
    [{}, /neither variable is set: write I\/N/],
    [{ ...task, CANOPY_SHARD_COUNT: "3" }, /--shard auto needs --records FILE/],
    [task, /SLURM_ARRAY_TASK_ID and no count: set CANOPY_SHARD_COUNT/],
    [{ JOB_COMPLETION_INDEX: "0" }, /JOB_COMPLETION_INDEX and no count: set CANOPY_SHARD_COUNT/],
    [{ ...task, CANOPY_SHARD_COUNT: "2" }, /SLURM_ARRAY_TASK_ID, from 1 on, is no part of 2/],
    [{ ...task, CANOPY_SHARD_COUNT: "two" }, /Variable CANOPY_SHARD_COUNT must be a whole number/],
    [
      { ...task, SLURM_ARRAY_TASK_MIN: "1", SLURM_ARRAY_TASK_MAX: "9", SLURM_ARRAY_TASK_COUNT: "3" },
      /needs tasks at equal steps, such as --array=1-3/,
    ],
  ];
  for (const [env, message] of refused) {
    const { code, err } = await evaluated("/", ["gsm8k", "--shard", "auto"], { env });
    assert.notEqual(code, 0);
    assert.match(err, message);
  }
});

test("an experiment file that says what cannot be is refused by line and member", async () => {
  const refused: readonly (readonly [string, RegExp])[] = [
    ['{\n  "modes": ["org/m"] }', /x\.jsonc:2:3: modes is not a known key; did you mean "mode"\?/],
    ['{ "samples": 0 }', /x\.jsonc:1:14: samples is 0: expected at least 1/],
    ['{ "samples": "2" }', /samples is "2": expected a whole number/],
    ['{ "protocol": "lmeval" }', /protocol is "lmeval": expected one of .*did you mean "lm-eval"/],
    ['{ "simulate": "yes" }', /simulate is "yes": expected true or false/],
    ['{ "experiment": "y.jsonc" }', /experiment is not a known key/],
    ['{ "sets": ["gsm8k"], }\n]', /x\.jsonc:2:1: .*the file should end here/],
    ["[]", /expected an object/],
    ['{ "samples": 1 }', /Needs a data set: .*--experiment FILE with sets/],
    [
      '{ "config": [{ "models": { "m": { "model": "m", "engine": "vllm", "api_key": "sk-1" } } }] }',
      /config\[0\]\.models\.m\.api_key is a secret, and this file is a part of its report: expected "api_key_env"/,
    ],
    ['{ "url": "http://me:word@host" }', /url is a secret/],
    [
      '{ "config": { "models": { "m": { "model": "m", "engin": "vllm" } } } }',
      /config\.models\.m\.engin is not a known key; did you mean "engine"\?/,
    ],
  ];
  for (const [text, message] of refused) {
    await inFolder(text, async (cwd) => {
      const { code, err, requests } = await evaluated(cwd, FILE);
      assert.deepEqual([code === 0, requests], [false, 0], text);
      assert.match(err, message);
      assert.doesNotMatch(err, /sk-1|me:word/);
    });
  }
  const missing = await evaluated("/", ["--experiment", "all-set"]);
  assert.match(
    missing.err,
    /no experiment has this name; did you mean "all-sets"\? \(experiments: all-sets, diversity\)/,
  );
});

test("paths of an experiment are seen from its file; names of sets and presets are none", async () => {
  const experiment = {
    sets: ["gsm8k", "./own.jsonl"],
    data: "../data.jsonl",
    config: ["moa-9-3-1", "tree.jsonc", "/etc/tree.jsonc", { models: {} }],
    lm_eval_output: "out",
    cost: ["8b", "32b=calibrated.json", "32b=4b"],
    prices: "prices.jsonc",
  };
  await inFolder(experiment, (cwd) => {
    const { members, shipped } = readExperiment("exp/x.jsonc", { cwd });
    assert.deepEqual(members["sets"], ["gsm8k", "exp/own.jsonl"]);
    assert.deepEqual(members["config"], ["moa-9-3-1", "exp/tree.jsonc", "/etc/tree.jsonc", { models: {} }]);
    assert.deepEqual(members["cost"], ["8b", "32b=exp/calibrated.json", "32b=4b"]);
    assert.equal(members["prices"], "exp/prices.jsonc");
    assert.deepEqual([members["data"], members["lm-eval-output"], shipped], ["data.jsonl", "exp/out", false]);
    return Promise.resolve();
  });
});

test("the JSON Schema of experiments knows every option and refuses others; the shipped one asks all ten sets", () => {
  const schema = experimentJsonSchema();
  assert.equal(schema["additionalProperties"], false);
  const names = Object.keys(schema["properties"] ?? {});
  for (const option of Object.keys(EVAL_OPTIONS)) {
    assert.equal(names.includes(option.replaceAll("-", "_")), option !== "experiment", option);
  }
  const { members } = readExperiment("all-sets", { cwd: "/" });
  assert.deepEqual(new Set(DATA_SETS.map(({ name }) => name)), new Set(members["sets"] as string[]));
});

test("the shipped experiment on open-ended prompts tells how unlike answers are, and nothing of right ones", async () => {
  const io = fakeIo({ cwd: "/", columns: 200 });
  const less = ["--samples", "1", "--repeats", "2", "--max-tokens", "16"];
  const code = await runCommand([benchCommand], ["bench", "eval", "--experiment", "diversity", ...less], io);
  assert.equal(code, 0, io.err.text);
  assert.match(io.out.text, /^Answers to open-ended prompts$/m);
  assert.match(io.out.text, /^Open-ended prompts: 1 of 24 +exit +1 +2 +\d+ +0\.\d{3} /m);
  assert.match(io.out.text, /^Beside tree, over the same prompts$/m);
  assert.match(io.out.text, /^8 ungradable, in no share, .*: an open-ended prompt has no right answer$/m);
  assert.match(io.out.text, /embedder: lexical, which knows words but not their meaning/);
});

test("open-ended prompts of one's own need no answer, asked once they say what is missing, and Canopy's are on no Hub", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-open-"));
  try {
    writeFileSync(join(cwd, "mine.jsonl"), '{"question":"Name a colour.","grader":"open"}\n');
    const { code, out, err } = await evaluated(cwd, ["./mine.jsonl", "--mode", "org/m"]);
    assert.equal(code, 0, err);
    assert.match(out, /is told where it was asked several times: --repeats 4$/m);
    const hub = await evaluated(cwd, ["open-ended", "--data", "hub"]);
    assert.match(hub.err, /open-ended are prompts of Canopy's own, published nowhere: leave out --data/);
    const harness = await evaluated(cwd, ["open-ended", "--protocol", "lm-eval", "--mode", "org/m"]);
    assert.match(harness.err, /open-ended is none of them: use chat/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});
