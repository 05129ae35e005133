import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { VirtualClock } from "../../../base/clock.ts";
import { EvalProgress } from "../../../cli/bench/eval/eval_progress.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { evaluated } from "./evaluated.ts";
import { fakeIo } from "../fake_io.ts";
import { withSystem } from "../served.ts";

test("bench eval asks all models that a server lists, calls samples samples, and goes on with its records", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-eval-"));
  try {
    const args = ["gsm8k", "--ids", "sample/17", "--ids", "sample/0", "--records", "r.jsonl"];
    const cut = await evaluated(cwd, args, { failures: 1 });
    assert.equal(cut.code, 1);
    assert.match(cut.out, /1 without an answer, left out of all figures: .*500/);
    const whole = await evaluated(cwd, [...args, "--json", "e.json"]);
    assert.equal(whole.code, 0, whole.err);
    assert.equal(whole.requests, 1, "only what failed is asked again");
    assert.match(whole.out, /^Simulated engines, so that no figure says anything about models: http/m);
    assert.match(whole.out, /^GSM8K sample \(21 questions by Canopy, not the data set\): 2 of 21$/m);
    for (const model of ["org/m", "org/n"]) {
      assert.match(whole.out, new RegExp(`^${model} +2 +50\\.0 % +9\\.5 % – 90\\.5 % +0 +1 `, "m"));
    }
    assert.match(
      whole.out,
      /^GSM8K sample: .* org\/n +2 +0\.0 % +-49\.0 % – 49\.0 % +0 +0 +1\.000 +0\.0 % – 0\.0 % +1\.000$/m,
    );
    const again = await evaluated(cwd, [...args, "--html", "e.html"]);
    assert.deepEqual([again.requests, again.out], [0, whole.out]);
    const { simulated, figures } = JSON.parse(readFileSync(join(cwd, "e.json"), "utf8"));
    assert.deepEqual([simulated, figures.length], [true, 2]);
    assert.match(readFileSync(join(cwd, "e.html"), "utf8"), /<figure><svg /);
    const other = await evaluated(cwd, [...args, "--seed", "other"]);
    assert.match(
      other.err,
      /Cannot go on with .*r\.jsonl: it was begun with seed "canopy", and now it is seed "other"; name another file/,
    );
    const experiment = '{ "sets": "gsm8k", "samples": 1, "records": "x.jsonl" } // <one> & only\n';
    writeFileSync(join(cwd, "x.jsonc"), experiment);
    assert.equal((await evaluated(cwd, ["--experiment", "x.jsonc"])).requests, 2);
    const page = await evaluated(cwd, ["--experiment", "x.jsonc", "--html", "x.html"]);
    assert.deepEqual([page.requests, page.code], [0, 0], page.err);
    assert.match(
      readFileSync(join(cwd, "x.html"), "utf8"),
      /<h2>Experiment file x\.jsonc<\/h2>\n<pre>\{ &quot;sets&quot;.* &lt;one&gt; &amp; only\n<\/pre>/,
    );
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

test("parts of an evaluation are merged into one that asks nothing, and two are compared answer by answer", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-eval-"));
  const bench = async (...args: string[]) => {
    const io = fakeIo({ cwd, columns: 200 });
    return {
      code: await runCommand([benchCommand], ["bench", ...args], io),
      out: io.out.text,
      err: io.err.text,
    };
  };
  try {
    const part = (shard: string, ...more: string[]) =>
      evaluated(cwd, ["gsm8k", "--shard", shard, "--records", `${shard[0]}.jsonl`, ...more]);
    const requests: number[] = [];
    for (const shard of ["1/3", "2/3", "3/3"]) requests.push((await part(shard)).requests);
    assert.deepEqual(requests, [14, 14, 14], "two models, seven questions each");
    const merged = await bench("merge", "all.jsonl", "1.jsonl", "2.jsonl", "3.jsonl");
    assert.deepEqual([merged.code, merged.out], [0, "42 answers of 3 files: all.jsonl\n"]);
    const into = await bench("merge", "--force", "all.jsonl", "1.jsonl", "all.jsonl");
    assert.deepEqual([into.code, into.out], [0, "42 answers of 2 files: all.jsonl\n"]);
    assert.equal(readFileSync(join(cwd, "all.jsonl"), "utf8").trim().split("\n").length, 43);
    assert.deepEqual(readdirSync(cwd).filter((name) => name.includes("merging")), []);
    const whole = await evaluated(cwd, ["gsm8k", "--records", "all.jsonl"]);
    assert.equal(whole.requests, 0);
    assert.match(whole.out, /^GSM8K sample \(21 questions by Canopy, not the data set\): 21 of 21$/m);
    assert.match(
      (await bench("merge", "all.jsonl", "1.jsonl")).err,
      /Cannot write all\.jsonl: it is there already/,
    );
    // A part that never began.
    const lost = ["part.jsonl", "1.jsonl", "gone.jsonl", "2.jsonl"];
    assert.match((await bench("merge", ...lost)).err, /Cannot read the answers of .*gone\.jsonl/);
    const rest = await bench("merge", "--partial", ...lost);
    assert.deepEqual([rest.code, rest.out], [0, "28 answers of 2 files: part.jsonl\n"]);
    assert.match(rest.err, /^Left out: Cannot read the answers of .*gone\.jsonl: .*ENOENT/);
    assert.match(
      (await bench("merge", "--partial", "x.jsonl", "gone.jsonl")).err,
      /Cannot read the answers of .*gone\.jsonl/,
    );
    await part("1/3", "--records", "other.jsonl", "--seed", "other");
    assert.match(
      (await bench("merge", "x.jsonl", "2.jsonl", "other.jsonl")).err,
      /Cannot merge other\.jsonl: it was/,
    );

    const same = await bench("compare", "all.jsonl", "all.jsonl");
    assert.equal(same.code, 0, same.err);
    assert.match(
      same.out,
      /^Simulated engines, so that no figure says anything about models: all\.jsonl against /m,
    );
    assert.match(
      same.out,
      /^gsm8k +org\/m +21 +4\.8 % +4\.8 % +0\.0 % .* 1\.000 +1\.000 +1\.000 – 1\.000 +1\.000$/m,
    );
    assert.doesNotMatch(same.out, /not the same in both/);
    const lines = readFileSync(join(cwd, "all.jsonl"), "utf8").split("\n");
    const right = lines.map((line) => line.replace(/"outcome":"(?:wrong|ungradable)"/, '"outcome":"right"'));
    writeFileSync(join(cwd, "right.jsonl"), right.join("\n"));
    assert.equal((await bench("compare", "all.jsonl", "right.jsonl")).code, 0);
    const worse = await bench("compare", "right.jsonl", "all.jsonl", "--mode", "org/m=org/n");
    assert.equal(worse.code, 1);
    assert.match(worse.out, /^gsm8k +org\/m → org\/n +21 /m);
    assert.equal(
      (await bench("compare", "all.jsonl", "all.jsonl", "--margin", "1")).code,
      1,
      "too few to rule it out",
    );
    // The branch timed out on all hard questions, and is as good on the easy ones.
    const easy = lines.filter((line, at) =>
      at === 0 || /"question":"sample\/[0-4]","mode":"org\/m"/.test(line)
    );
    writeFileSync(join(cwd, "easy.jsonl"), `${easy.join("\n")}\n`);
    const lacking = await bench("compare", "all.jsonl", "easy.jsonl");
    assert.equal(lacking.code, 1, lacking.out);
    assert.match(lacking.out, /^gsm8k +org\/m +5 .* 0\.0 % /m);
    assert.match(
      lacking.out,
      /^gsm8k, org\/m: 16 of 21 answers of all\.jsonl have none beside them in easy\.jsonl.* more than 5 %, .* exit code 1$/m,
    );
    assert.match(lacking.out, /^not compared: mode org\/n, which all\.jsonl alone has$/m);
    assert.equal((await bench("compare", "all.jsonl", "easy.jsonl", "--missing", "77")).code, 0);
    for (
      const [args, message] of [
        [["all.jsonl"], /Needs two files/],
        [["all.jsonl", "none.jsonl"], /Cannot read the answers of .*none\.jsonl/],
        [
          ["all.jsonl", "all.jsonl", "--mode", "org/x"],
          /the first file has no mode "org\/x": it has org\/m, org\/n/,
        ],
      ] as const
    ) assert.match((await bench("compare", ...args)).err, message);
    assert.match((await evaluated(cwd, ["gsm8k", "--shard", "4/3"])).err, /--shard must be I\/N/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

test("progress says how many answers come in a time and how long the rest takes, and what the records have took none", () => {
  let nowMs = 0;
  const clock = new VirtualClock();
  clock.now = () => nowMs;
  const io = fakeIo({ clock });
  const progress = new EvalProgress(io);
  const lines = () => io.err.text.trim().split("\n");
  for (let done = 1; done <= 10; done++) progress.add(done, 100, true);
  assert.deepEqual(lines(), ["10 of 100 answers"]);
  for (let done = 11; done <= 30; done++) {
    nowMs += 500;
    progress.add(done, 100, false);
  }
  assert.equal(lines().at(-1), "30 of 100 answers, 2.0 a second, about 35 s left");
  nowMs += 3_600_000;
  for (let done = 31; done <= 40; done++) progress.add(done, 100, false);
  assert.equal(lines().at(-1), "40 of 100 answers, 29.9 an hour, about 2 h 1 min left");
  for (let done = 41; done <= 100; done++) progress.add(done, 100, false);
  assert.equal(lines().at(-1), "100 of 100 answers, 1.5 a minute");
});

test("bench eval refuses what it cannot do before it asks anything", async () => {
  const refused: readonly (readonly [readonly string[], RegExp])[] = [
    [[], /Needs a data set: canopy bench eval SET…/],
    [["gsm8k", "--task", "mmlu_generative"], /--task needs --protocol lm-eval/],
    [
      ["gsm8k", "--task", "mmlu_generative", "--protocol", "lm-eval"],
      /--task mmlu_generative is of no set that is asked here/,
    ],
    [
      ["gsm8k", "--samples", "2", "--warm-up", "2"],
      /--warm-up 2 leaves nothing to count: there are 2 questions \(/,
    ],
    [
      ["gsm8k", "--samples", "4", "--shard", "1/4", "--warm-up", "1"],
      /--warm-up 1 leaves nothing to count: there is 1 question in part 1 of 4 \(/,
    ],
  ];
  for (const [args, message] of refused) {
    const { code, err, requests } = await evaluated("/", args);
    assert.notEqual(code, 0);
    assert.match(err, message);
    assert.equal(requests, 0);
  }
});

test("bench eval asks at a rate and behind a warm-up, and says what does not count and what was held back", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-eval-"));
  try {
    const experiment = { sets: "gsm8k", samples: 4, mode: "org/m", rate: 50, concurrency: 1, warm_up: 1 };
    writeFileSync(join(cwd, "x.jsonc"), JSON.stringify({ ...experiment, records: "r.jsonl" }));
    const { code, out, err } = await evaluated(cwd, ["--experiment", "x.jsonc", "--json", "e.json"]);
    assert.equal(code, 0, err);
    assert.match(out, /; 50 questions a second, at most 1 at a time at random, 1 of warm-up, 1 each; seed /);
    assert.match(out, /^org\/m +3 /m);
    assert.match(out, /^in no figure, since they are of the warm-up: 1 answer to 1 question$/m);
    assert.match(
      out,
      /^held back: \d questions?, arrived while as many as --concurrency allows were under way; the longest wait /m,
    );
    const report = JSON.parse(readFileSync(join(cwd, "e.json"), "utf8"));
    assert.deepEqual([report.warmUpAnswers, report.settings.rate, report.settings.warmUp], [1, 50, 1]);
    assert.ok(report.held.longestMs > 0);
    const again = await evaluated(cwd, ["--experiment", "x.jsonc"]);
    assert.deepEqual([again.requests, again.out], [0, out]);
    const options = ["gsm8k", "--samples", "4", "--mode", "org/m", "--concurrency", "1", "--warm-up", "1"];
    const typed = await evaluated(cwd, [...options, "--rate", "50", "--json", "f.json"]);
    assert.equal(
      JSON.parse(readFileSync(join(cwd, "f.json"), "utf8")).settings.sha256,
      report.settings.sha256,
    );
    assert.equal(typed.requests, 4);
    const slower = await evaluated(cwd, ["--experiment", "x.jsonc", "--rate", "2"]);
    assert.match(slower.err, /it was begun with rate 50, and now it is rate 2; name another file/);
    const free = await evaluated(cwd, ["gsm8k", "--samples", "2", "--mode", "org/m", "--rate", "5"]);
    assert.match(free.out, /; 5 questions a second at random, 1 each; /);
    assert.match(free.out, /^GPUs of a server: one, since servers do not say how many they have/m);
    assert.doesNotMatch(free.out, /held back|warm-up/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

test("bench eval --protocol lm-eval asks as its tasks do, and gives each filter's figure", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-eval-"));
  try {
    const ids = ["--ids", "sample/17", "--ids", "sample/0"];
    const args = ["gsm8k", ...ids, "--protocol", "lm-eval", "--mode", "org/m", "--records", "r.jsonl"];
    const files = ["--json", "e.json", "--markdown", "e.md", "--lm-eval-output", "out"];
    const { code, out, err } = await evaluated(cwd, [...args, ...files]);
    assert.equal(code, 0, err);
    assert.match(out, /protocol lm-eval; 1 at a time/);
    // "So it is \\boxed{15}." and "Never mind.": lm-eval's pattern takes the full stop for a part of the number.
    assert.match(out, /^GSM8K sample: .* org\/m +flexible-extract +2 +50\.0 % +50\.0 % +1$/m);
    assert.match(out, /^GSM8K sample: .* org\/m +strict-match +2 +0\.0 % +0\.0 % +2$/m);
    assert.match(out, /^GSM8K sample: .* org\/m +canopy +2 +50\.0 % /m);
    assert.match(out, /prompts, stops, limits and filters are those of lm-eval \d/);
    const { settings } = JSON.parse(readFileSync(join(cwd, "e.json"), "utf8"));
    assert.deepEqual(settings.tasks, ["gsm8k_cot_zeroshot"]);
    const lines = readFileSync(join(cwd, "r.jsonl"), "utf8").split("\n");
    assert.match(lines[1]!, /"readings":\{"flexible-extract":\{"outcome":"/);
    const markdown = readFileSync(join(cwd, "e.md"), "utf8");
    assert.match(markdown, /^\| mode \| answers \|.*\n\| --- \| ---: \|.*\n\| org\/m \| 2 \| 50\.0 % \|/m);
    const written = readdirSync(join(cwd, "out", "org__m")).sort();
    assert.match(written.join(" "), /^results_\S+\.json samples_gsm8k_cot_zeroshot_\S+\.jsonl$/);
    const [results = "", samples = ""] = written.map((name) =>
      readFileSync(join(cwd, "out", "org__m", name), "utf8")
    );
    const { results: { gsm8k_cot_zeroshot: task }, model_name: name } = JSON.parse(results);
    assert.deepEqual([task["exact_match,flexible-extract"], task["exact_match_stderr,strict-match"], name], [
      0.5,
      0,
      "org/m",
    ]);
    const sampled = samples.trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(sampled.length, 2 * 3, "a line for each answer and filter");
    assert.deepEqual(sampled[1].filtered_resps, ["[invalid]"]);
    const own = join(cwd, "own.jsonl");
    writeFileSync(own, '{"question":"6 times 7?","answer":"42","grader":"number"}\n');
    const refused = await evaluated(cwd, ["./own.jsonl", "--protocol", "lm-eval"]);
    assert.match(refused.err, /--protocol lm-eval is for the data sets that lm-eval has tasks for/);
    const hmmt = await evaluated(cwd, [
      "hmmt25",
      "--samples",
      "1",
      "--protocol",
      "lm-eval",
      "--mode",
      "org/m",
    ]);
    assert.match(hmmt.out, /hmmt25: lm-eval has no task for HMMT: its aime25 is used/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

/** Configurations `first`, `vllm` (in MoA-vllm's manner) and `own` of one small model, in a folder. */
async function withConfigs(use: (folder: string, args: readonly string[]) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-eval-"));
  const graph = (compat: string | undefined) => ({
    compat,
    sampling: { max_tokens: 8 },
    layers: [
      { agents: [{ model: "4b" }, { model: "4b" }], prompt: "ask" },
      { agents: [{ model: "4b" }], prompt: "read" },
    ],
  });
  const prompts = { ask: { text: "[input_prompts]" }, read: { text: "[input_prompts] [responses]" } };
  const models = { "4b": { model: "org/4b", engine: "vllm", workers: ["http://127.0.0.1:1"] } };
  const first = { models, graphs: { moa: { ...graph(undefined), layers: [{ agents: [{ model: "4b" }] }] } } };
  // What a service has for itself alone: a run of a benchmark is none of its runs.
  const tls = { cert: join(folder, "none.pem"), key: join(folder, "none.pem") };
  const server = { records: { file: join(folder, "runs.sqlite") }, tls };
  const own = { ...first, server };
  const all = { first, vllm: { models, prompts, graphs: { any: graph("moa-vllm") } }, own };
  try {
    const configs = Object.entries(all).map(([name, config]) => {
      const path = join(folder, `${name}.jsonc`);
      writeFileSync(path, JSON.stringify(config));
      return path;
    });
    const limits = ["--max-tokens", "8", "--simulate"];
    await use(folder, ["gsm8k", ...limits, ...configs.flatMap((path) => ["--config", path])]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const FORMS = ["self-consistency@tokens", "self-consistency@time", "best-of-2"];
const MODES = ["moa-vllm", "own/moa", ...FORMS.map((form) => `${form}:4b`)];
const ASKED = MODES.flatMap((mode) => ["--mode", mode]);

test("bench eval serves configurations in this process, on simulated engines, and asks models several times", async () => {
  await withConfigs(async (folder, args) => {
    await withSystem(async (io) => {
      const all = ["bench", "eval", ...args, ...ASKED, "--samples", "1", "--speedup", "2000"];
      const code = await runCommand([benchCommand], all, io);
      assert.equal(code, 0, io.err.text);
      assert.match(
        io.out.text,
        /^Simulated engines, .*own\.jsonc in this process, simulated engines 2000 times/m,
      );
      for (const mode of MODES) assert.match(io.out.text, new RegExp(`^${mode} +1 `, "m"));
      assert.match(io.out.text, /^best-of-2:4b .* 2\.0$/m);
      assert.doesNotMatch(io.out.text, /Runs are recorded/);
      assert.deepEqual(readdirSync(folder).filter((name) => name.includes("sqlite")), []);
    }, { columns: 200 });
  });
});

/** False for a line that was cut, which may well end with a brace. */
function isWhole(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

test("simulated configurations are asked in virtual time: cut off anywhere and gone on with, the report is the same", async () => {
  await withConfigs(async (cwd, args) => {
    const bench = async (...more: string[]) => {
      // No clock, no network: whoever used one would fail.
      const io = fakeIo({ cwd, columns: 200 });
      const code = await runCommand([benchCommand], ["bench", "eval", ...args, ...ASKED, ...more], io);
      assert.equal(code, 0, io.err.text);
      return io.out.text;
    };
    const files = (name: string) => ["--records", `${name}.jsonl`, "--json", `${name}.json`];
    const text = (file: string) => readFileSync(join(cwd, file), "utf8");
    const whole = await bench("--samples", "2", ...files("whole"));
    assert.match(
      whole,
      /^Simulated engines, .*own\.jsonc in this process, simulated H200 GPUs in virtual time, /m,
    );
    assert.match(whole, /^each answer has engines of its own, so that nothing of another one is cached/m);
    assert.match(whole, /^in virtual time exits compare answers by their words/m);
    assert.match(
      whole,
      /^What an answer took\nset +mode +first word +calls +read +cached +written +wasted /m,
    );
    // Three agents each, all of one model.
    assert.match(
      whole,
      /^GSM8K sample: .* moa-vllm +[\d.]+ m?s +3\.0 +\d+ +\d+\.\d % +\d+ +0 +0 +– +\d\.\d\d s$/m,
    );
    assert.match(
      whole,
      /^GSM8K sample: .* moa-vllm +4b +3\.0 +100 % +\d+ +\d+\.\d % +24 +100 % +\d\.\d\d s$/m,
    );
    assert.match(whole, /^As it is read\nset +mode +first word +ITL mean +p50 /m);
    // Two agents, then one that reads both.
    assert.match(
      whole,
      /^GSM8K sample: .* moa-vllm +1 +2\.0 +2\.0 .*\nGSM8K sample: .* moa-vllm +2 +1\.0 +1\.0 /m,
    );
    assert.match(whole, /^not divided by #2 as the paper does: none of these modes is known/m);
    assert.match(whole, /^GSM8K sample: .* best-of-2:4b +[\d.]+ m?s +2\.0 /m);
    const records = text("whole.jsonl");
    for (const share of [0.3, 0.7]) {
      writeFileSync(join(cwd, "cut.jsonl"), records.slice(0, share * records.length));
      assert.equal(await bench("--samples", "2", ...files("cut")), whole);
      assert.equal(text("cut.json"), text("whole.json"));
      assert.equal(text("cut.jsonl").trim().split("\n").filter(isWhole).length, 1 + 10);
    }
    const crowd = ["--samples", "3", "--rate", "5", "--concurrency", "2"];
    const together = await bench(...crowd);
    assert.equal(await bench(...crowd), together);
    assert.match(together, /^held back: /m);
    assert.doesNotMatch(together, /engines of its own/);
  });
});

test("costs of engines, prices and a mode to divide by are as options say, and answers do not depend on the last two", async () => {
  await withConfigs(async (cwd, args) => {
    const bench = async (...more: string[]) => {
      const io = fakeIo({ cwd, columns: 200 });
      const all = [
        "bench",
        "eval",
        ...args,
        "--samples",
        "1",
        "--mode",
        "moa-vllm",
        "--mode",
        "moa",
        ...more,
      ];
      const code = await runCommand([benchCommand], all, io);
      return { code, out: io.out.text, err: io.err.text };
    };
    const report = (name: string) => JSON.parse(readFileSync(join(cwd, name), "utf8"));
    const price = { prompt: 1, completion: 2 };
    writeFileSync(
      join(cwd, "p.jsonc"),
      JSON.stringify({ gpu_hour: 3600, models: { "4b": { gpus: 4, price } } }),
    );
    const kept = ["--records", "r.jsonl"];
    const plain = await bench(...kept, "--json", "a.json");
    assert.equal(plain.code, 0, plain.err);
    const priced = await bench(...kept, "--json", "b.json", "--prices", "p.jsonc", "--baseline", "moa-vllm");
    assert.equal(priced.code, 0, priced.err);
    const [before] = report("a.json").figures;
    const { figures: [after], normalised: [one] } = report("b.json");
    assert.deepEqual([before.tokenCost, before.gpuCost], [null, null]);
    assert.ok(Math.abs(after.gpuSeconds / before.gpuSeconds - 4) < 1e-9);
    assert.ok(Math.abs(after.gpuCost - after.gpuSeconds) < 1e-9);
    assert.ok(Math.abs(after.tokenCost - (after.promptTokens + 2 * after.completionTokens) / 1e6) < 1e-12);
    assert.deepEqual([one.mode, one.by, one.answers], ["moa", "moa-vllm", 1]);
    assert.match(priced.out, /^Divided by moa-vllm, over the same answers$/m);
    assert.match(plain.out, /^GPUs of a server: one, or as many as .*; --prices says another number$/m);
    assert.match(priced.out, /^GPUs of a server: .*, where --prices does not say another number$/m);
    const slow = await bench("--cost", "4b=32b", "--json", "c.json");
    assert.equal(slow.code, 0, slow.err);
    assert.match(slow.out, /simulated H200 GPUs in virtual time, but 4b as 32b \(--cost\)/);
    assert.ok(report("c.json").figures[0].latencyMs.mean > 3 * before.latencyMs.mean);
    assert.match((await bench(...kept, "--cost", "32b")).err, /Cannot go on with .*: it was begun with url/);
    assert.match(
      (await bench("--cost", "x=32b")).err,
      /--cost names "x", which is no model here; there are 4b/,
    );
    assert.match(
      (await bench("--baseline", "x")).err,
      /--baseline x is no mode that is asked: there are moa-vllm, moa/,
    );
    assert.match((await bench("--prices", "no.jsonc")).err, /--prices no\.jsonc: this file cannot be read/);
  });
});

test("the tree of the preset with all four modes is #2: others are divided by it, with Fig. 4's plots and a page for each question", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-eval-"));
  try {
    const io = fakeIo({ cwd, columns: 200 });
    const modes = ["1-dense", "2-tree", "3-overlap"].flatMap((mode) => ["--mode", mode]);
    const files = ["--html", "e.html", "--svg", "e.svg", "--pages", "deep/pages"];
    const rest = ["--simulate", "--samples", "2", "--max-tokens", "8", ...modes, ...files];
    const all = ["bench", "eval", "gsm8k", "--config", "faster-moa-modes", ...rest];
    const code = await runCommand([benchCommand], all, io);
    assert.equal(code, 0, io.err.text);
    assert.match(io.out.text, /^Divided by 2-tree, over the same answers$/m);
    assert.match(io.out.text, /^GSM8K sample: .* 1-dense +2 +[\d.]+ .* 1\.462 /m, "19 calls, not 13");
    assert.match(
      io.out.text,
      /^divided by 2-tree: means over the answers that both modes have, as the paper/m,
    );
    for (const name of ["i", "ii", "iii"]) {
      assert.match(readFileSync(join(cwd, `e.fig4-${name}.svg`), "utf8"), /As Fig\. 4\(i+\)/);
    }
    const page = readFileSync(join(cwd, "e.html"), "utf8");
    assert.equal([...page.matchAll(/<figure><svg /g)].length, 4);
    assert.match(page, /<a href="deep\/pages\/index\.html">A page for each question<\/a>/);
    assert.match(io.err.text, /^Wrote 3 pages: deep\/pages\/index\.html$/m);
    assert.deepEqual(readdirSync(join(cwd, "deep/pages/gsm8k")).sort(), ["1.html", "2.html"]);
    assert.match(readFileSync(join(cwd, "deep/pages/gsm8k/1.html"), "utf8"), /<summary>Tree: 19 agents/);
    // The file has what agents wrote, also of a run that had no use for it.
    const kept = [
      "--simulate",
      "--samples",
      "1",
      "--max-tokens",
      "8",
      "--mode",
      "2-tree",
      "--records",
      "r.jsonl",
    ];
    for (const more of [[], ["--pages", "again"]]) {
      const run = ["bench", "eval", "gsm8k", "--config", "faster-moa-modes", ...kept, ...more];
      assert.equal(await runCommand([benchCommand], run, io), 0, io.err.text);
    }
    assert.match(readFileSync(join(cwd, "again/gsm8k/1.html"), "utf8"), /<summary>Texts: of 13 agents/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

test("bench eval refuses modes and targets that cannot be, before it asks anything", async () => {
  const refused: readonly (readonly [readonly string[], RegExp])[] = [
    [
      ["--mode", "best-of-n:org/m"],
      /--mode must be a model or graph, .*best-of-N:MODEL: current value is "best-of-n/,
    ],
    [
      ["--mode", "self-consistency@time:org/m"],
      /cannot be the first one: its budget is what the first mode spends/,
    ],
    [["--simulate"], /--simulate needs --config/],
    [["--speedup", "3"], /--speedup needs --simulate/],
    [["--cost", "4b"], /--cost needs --simulate/],
    [["--config", "moa-9-3-1", "--url", "http://127.0.0.1:1"], /leave out --url/],
  ];
  for (const [args, message] of refused) {
    const { code, err } = await evaluated("/", ["gsm8k", ...args]);
    assert.notEqual(code, 0);
    assert.match(err, message);
  }
});
