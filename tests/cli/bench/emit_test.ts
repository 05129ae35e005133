import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import "../../launcher/emit/no_deprecation.ts";
import { validate as validateJob } from "kubernetes-models/_schemas/IoK8sApiBatchV1Job";
import { validate as validateConfigMap } from "kubernetes-models/_schemas/IoK8sApiCoreV1ConfigMap";
import { validate as validateVolumeClaim } from "kubernetes-models/_schemas/IoK8sApiCoreV1PersistentVolumeClaim";
import { parseAllDocuments } from "yaml";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { loadChoice } from "../../../cli/bench/eval/eval_targets.ts";
import { configChoices, readExperiment } from "../../../cli/bench/eval/experiment_file.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { checkFields } from "../../launcher/emit/known_fields.ts";
import { fakeIo } from "../fake_io.ts";
import { evaluated } from "./evaluated.ts";

async function inFolder(use: (cwd: string) => Promise<void>): Promise<void> {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-emit-"));
  try {
    await use(cwd);
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

async function emitted(cwd: string, ...args: string[]) {
  const io = fakeIo({ cwd });
  const code = await runCommand([benchCommand], ["bench", "emit", ...args], io);
  return { code, out: io.out.text, err: io.err.text };
}

/** A program that only keeps the arguments, and the number of parts, that a script gives it. */
const RECORDER = '#!/bin/sh\nprintf "%s\\0" "$CANOPY_SHARD_COUNT" "$@" end >>"$CALLS"\n';

/** Runs a script of Slurm; gives the calls of the program, each as the number of parts and its arguments. */
function callsOf(folder: string, script: string): string[][] {
  const calls = join(folder, "calls");
  rmSync(calls, { force: true });
  const env = { PATH: process.env["PATH"], CALLS: calls, SLURM_SUBMIT_DIR: folder };
  const { status, stderr } = spawnSync("bash", [join(folder, script)], { cwd: "/", env, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return readFileSync(calls, "utf8").split("end\0").slice(0, -1).map((call) => call.split("\0").slice(0, -1));
}

test("Slurm's scripts ask every part of an experiment, put them together and make the report, whatever names hold", async () => {
  await inFolder(async (cwd) => {
    const odd = `a 'b' "c" $(d)\n-e`;
    mkdirSync(join(cwd, odd));
    writeFileSync(
      join(cwd, odd, "x.jsonc"),
      '{ "sets": ["gsm8k"], "samples": 3, "url": "http://s", "mode": ["org/m"] }',
    );
    const program = join(cwd, odd, "canopy");
    writeFileSync(program, RECORDER);
    chmodSync(program, 0o755);
    const out = join(cwd, "jobs");
    const args = ["--experiment", join(odd, "x.jsonc"), "--target", "slurm", "--out", out];
    const { code, err } = await emitted(cwd, ...args, "--shards", "2", "--canopy-binary", program);
    assert.deepEqual([code, err], [0, ""]);
    assert.equal(existsSync(join(out, "experiment.jsonc")), false, "the file itself is named");
    const script = readFileSync(join(out, "eval.sbatch"), "utf8");
    assert.match(script, /^#SBATCH --array=1-2$/m);

    const [[count, ...part] = []] = callsOf(out, "eval.sbatch");
    assert.deepEqual([count, part.slice(0, 2)], ["2", ["bench", "eval"]]);
    for (const task of ["1", "2"]) {
      const env = { SLURM_ARRAY_TASK_ID: task, CANOPY_SHARD_COUNT: count ?? "" };
      const asked = await evaluated(out, part.slice(2), { env });
      assert.deepEqual([asked.code, asked.requests], [0, task === "1" ? 2 : 1], asked.err);
    }
    const [[, ...merge] = [], [, ...report] = []] = callsOf(out, "merge.sbatch");
    const merged = await evaluated(out, merge.slice(2), { command: "merge" });
    assert.equal(merged.out, "3 answers of 2 files: records.jsonl\n", merged.err);
    assert.deepEqual(report.slice(-2), ["--html=records.html", "--json=records.json"]);
    const whole = await evaluated(out, report.slice(2, -2));
    assert.deepEqual([whole.code, whole.requests], [0, 0], whole.err);
  });
});

/** The commands that a file's comments say, run by a shell with these programs alone; gives the calls of all of them. */
function commandsOf(cwd: string, text: string, programs: Readonly<Record<string, string>>): string[] {
  const bin = mkdtempSync(join(cwd, "bin-"));
  for (const [name, body] of Object.entries(programs)) {
    writeFileSync(join(bin, name), `#!/bin/sh\nprintf '%s\\n' "${name} $*" >>"$CALLS"\n${body}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  const lines = text.split("\n").filter((line) => /^# {3}/.test(line)).map((line) => line.slice(4)).join(
    "\n",
  );
  const calls = join(bin, "calls");
  const env = { PATH: `${bin}:${process.env["PATH"]}`, CALLS: calls };
  const { status, stderr } = spawnSync("sh", ["-e", "-c", lines], { cwd: bin, env, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return readFileSync(calls, "utf8").trim().split("\n");
}

test("the commands that files name merge the parts also where one of them has failed for good", async () => {
  await inFolder(async (cwd) => {
    const out = join(cwd, "jobs");
    const made = await emitted(cwd, "gsm8k", "--url", "http://s", "--shards", "3", "--out", out);
    assert.equal(made.code, 0, made.err);
    const text = (name: string) => readFileSync(join(out, name), "utf8");
    assert.deepEqual(commandsOf(cwd, text("eval.sbatch"), { sbatch: "echo 17" }), [
      "sbatch --parsable eval.sbatch",
      "sbatch --dependency=afterany:17 merge.sbatch",
    ]);
    // The conditions of a Job one after the other: it runs, it is about to fail, it has failed.
    const kubectl = `[ "$1" = get ] || exit 0
case $(grep -c "kubectl get" "$CALLS") in 1) ;; 2) echo FailureTarget ;; *) echo FailureTarget Failed ;; esac`;
    const calls = commandsOf(cwd, text("eval.yaml"), { kubectl, sleep: "" });
    const get = "kubectl get job/canopy-bench -o jsonpath={.status.conditions[*].type}";
    assert.deepEqual(calls, [
      "kubectl apply -f eval.yaml",
      ...[get, "sleep 10", get, "sleep 10", get],
      "kubectl apply -f merge.yaml",
    ]);
    for (const name of ["merge.sbatch", "merge.yaml"]) assert.match(text(name), /--partial/);
  });
});

test("options become an experiment file beside the scripts, with paths as they are seen from there", async () => {
  await inFolder(async (cwd) => {
    const out = join(cwd, "jobs");
    const odd = 'it\'s "x"\n# y';
    const options = ["gsm8k", "./own.jsonl", "--url", "http://s", "--mode", odd, "--max-tokens", "9"];
    const more = ["--records", "r.jsonl", "--markdown", "/all.md", "--shards", "12", "--parallel", "4"];
    const args = [...options, ...more, "--target", "slurm", "--out", out];
    const { code, err } = await emitted(cwd, ...args);
    assert.deepEqual([code, err], [0, ""]);
    const { members } = readExperiment(join(out, "experiment.jsonc"), { cwd });
    assert.deepEqual(members["sets"], ["gsm8k", join(cwd, "own.jsonl")]);
    assert.deepEqual([members["mode"], members["max-tokens"]], [[odd], 9]);
    assert.deepEqual([members["records"], members["markdown"]], [join(cwd, "r.jsonl"), "/all.md"]);
    const script = readFileSync(join(out, "eval.sbatch"), "utf8");
    assert.match(script, /^#SBATCH --array=1-12%4$/m);
    assert.match(script, /^exec canopy bench eval --experiment=experiment\.jsonc --shard=auto$/m);
    const merge = readFileSync(join(out, "merge.sbatch"), "utf8");
    assert.match(merge, / -- \.\.\/r\.jsonl \.\.\/r\.1-of-12\.jsonl .*\.\.\/r\.12-of-12\.jsonl\n/);
    assert.match(merge, /^exec canopy bench eval --experiment=experiment\.jsonc$/m);
    for (const name of ["eval.sbatch", "merge.sbatch"]) {
      assert.equal(spawnSync("bash", ["-n", join(out, name)], { encoding: "utf8" }).stderr, "");
    }

    assert.equal((await emitted(cwd, ...args)).code, 0, "the same again changes nothing");
    const refused = await emitted(cwd, ...args, "--shards", "13");
    assert.notEqual(refused.code, 0);
    assert.match(refused.err, /eval\.sbatch: it is there already.*--force/);
    assert.equal(readFileSync(join(out, "eval.sbatch"), "utf8"), script);
    assert.equal((await emitted(cwd, ...args, "--shards", "13", "--force")).code, 0);
    assert.match(readFileSync(join(out, "eval.sbatch"), "utf8"), /--array=1-13%4/);
  });
});

test("Kubernetes' Job has a pod for each part, the experiment with its configurations, and a volume for records", async () => {
  await inFolder(async (cwd) => {
    const models = {
      m: { model: "org/m", engine: "vllm", workers: ["http://w:8000"], api_key_env: "KEY" },
    };
    writeFileSync(join(cwd, "tree.jsonc"), JSON.stringify({ models }));
    const file = { sets: ["gsm8k"], config: [join(cwd, "tree.jsonc"), "moa-9-3-1"], html: "out/a b.html" };
    writeFileSync(join(cwd, "x.jsonc"), JSON.stringify(file));
    const args = [
      "--experiment",
      join(cwd, "x.jsonc"),
      "--shards",
      "3",
      "--parallel",
      "8",
      "--target",
      "kubernetes",
    ];
    const { code, out, err } = await emitted(cwd, ...args);
    assert.equal(code, 0, err);
    assert.match(err, /^http:\/\/127\.0\.0\.1:\d+ is each task's own host/);
    const [evaluation = "", merge = ""] = out.split("# --- merge.yaml\n");
    const [config, claim, job, merging] = [evaluation, merge].flatMap((text) =>
      parseAllDocuments(text).map((document) => {
        assert.deepEqual(document.errors, []);
        return document.toJS();
      })
    );
    for (
      const [manifest, validate] of [
        [config, validateConfigMap],
        [claim, validateVolumeClaim],
        [job, validateJob],
        [merging, validateJob],
      ] as const
    ) {
      const { valid, unknown } = checkFields(manifest, validate);
      assert.ok(valid, JSON.stringify(manifest));
      assert.deepEqual(unknown.filter((path) => path !== ".spec.backoffLimitPerIndex"), []);
    }
    const { completionMode, completions, parallelism, template } = job.spec;
    assert.deepEqual([completionMode, completions, parallelism], ["Indexed", 3, 3]);
    const [container] = template.spec.containers;
    assert.deepEqual(container.args, [
      "bench",
      "eval",
      "--experiment=/etc/canopy/experiment.jsonc",
      "--records=/bench/records.jsonl",
      "--shard=auto",
    ]);
    assert.deepEqual(container.env.at(-1), { name: "CANOPY_SHARD_COUNT", value: "3" });
    assert.deepEqual(merging.spec.template.spec.initContainers[0].args.slice(-2), [
      "/bench/records.2-of-3.jsonl",
      "/bench/records.3-of-3.jsonl",
    ]);
    const pod = join(cwd, "pod");
    mountConfigMap(config, job, pod);
    const { members } = readExperiment(join(pod, "experiment.jsonc"), { cwd });
    const [tree, preset] = configChoices(members["config"]);
    assert.deepEqual([preset, members["html"]], ["moa-9-3-1", "/bench/a b.html"]);
    assert.match(String(tree), /\/tree\.jsonc$/);
    const io = fakeIo({ cwd, env: { KEY: "k" } });
    assert.deepEqual(loadChoice(tree!, io).config, loadChoice(join(cwd, "tree.jsonc"), io).config);

    writeFileSync(
      join(cwd, "tree.jsonc"),
      JSON.stringify({ models: { m: { ...models.m, api_key: "sk-1" } } }),
    );
    const secret = await emitted(cwd, ...args);
    assert.match(
      secret.err,
      /into a ConfigMap: models\.m\.api_key is a secret; name its variable as api_key_env/,
    );
    assert.doesNotMatch(`${secret.err}${secret.out}`, /sk-1/);
  });
});

/** The files that a pod sees of its ConfigMap. */
function mountConfigMap(config: ConfigMap, job: MountingJob, folder: string): void {
  const [volume] = job.spec.template.spec.volumes;
  for (
    const { key, path } of volume?.configMap?.items ??
      Object.keys(config.data).map((key) => ({ key, path: key }))
  ) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), config.data[key]!);
  }
}

interface ConfigMap {
  readonly data: Readonly<Record<string, string>>;
}

interface MountingJob {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly volumes: readonly {
          readonly configMap?: {
            readonly items?: readonly { readonly key: string; readonly path: string }[];
          };
        }[];
      };
    };
  };
}

test("modes are called in pods what they are called here, and the hash of their report is the same", async () => {
  await inFolder(async (cwd) => {
    const graphs = { moa: { layers: [{ agents: [{ model: "4b" }] }] } };
    const models = { "4b": { model: "org/4b", engine: "vllm", workers: ["http://w:8000"] } };
    // Names are those of files, whatever their folders and the characters that a ConfigMap's keys may not have.
    mkdirSync(join(cwd, "x"));
    mkdirSync(join(cwd, "y"));
    writeFileSync(join(cwd, "x/a tree.jsonc"), JSON.stringify({ models, graphs }));
    writeFileSync(
      join(cwd, "y/a tree.jsonc"),
      JSON.stringify({ models: { ...models, "8b": models["4b"] }, graphs }),
    );
    writeFileSync(
      join(cwd, "b.yaml"),
      `models: ${JSON.stringify(models)}\ngraphs: ${JSON.stringify(graphs)} # the tree\n`,
    );
    const config = ["x/a tree.jsonc", "y/a tree.jsonc", "b.yaml"].map((name) => join(cwd, name));
    const asked = {
      sets: "gsm8k",
      samples: 1,
      simulate: true,
      max_tokens: 8,
      mode: ["moa", "a tree/moa", "b/moa"],
    };
    writeFileSync(join(cwd, "x.jsonc"), JSON.stringify({ ...asked, config }));
    const args = ["--experiment", join(cwd, "x.jsonc"), "--shards", "2", "--target", "kubernetes"];
    const { code, out, err } = await emitted(cwd, ...args);
    assert.equal(code, 0, err);
    const [map, , job] = parseAllDocuments(out.split("# --- merge.yaml\n")[0]!).map((document) =>
      document.toJS()
    );
    assert.deepEqual(Object.keys(map.data).filter((key) => !/^[-.\w]+$/.test(key)), []);
    mountConfigMap(map, job, join(cwd, "pod"));
    const hashes: unknown[] = [];
    for (const experiment of [join(cwd, "x.jsonc"), join(cwd, "pod/experiment.jsonc")]) {
      const json = join(cwd, `${hashes.length}.json`);
      const io = fakeIo({ cwd });
      const asking = ["bench", "eval", "--experiment", experiment, "--json", json];
      assert.equal(await runCommand([benchCommand], asking, io), 0, io.err.text);
      hashes.push(JSON.parse(readFileSync(json, "utf8")).settings.sha256);
    }
    assert.equal(hashes[0], hashes[1]);
  });
});

test("bench emit refuses what no task could do", async () => {
  await inFolder(async (cwd) => {
    writeFileSync(join(cwd, "part.jsonc"), '{ "sets": "gsm8k", "shard": "1/2" }');
    const url = ["--url", "http://s"];
    const refused: readonly (readonly [readonly string[], RegExp])[] = [
      [["gsm8k", ...url], /Needs the number of parts: --shards N/],
      [["--shards", "2"], /Needs a data set: canopy bench emit SET…/],
      [["gsm9k", "--shards", "2", ...url], /There is no data set "gsm9k"/],
      [["--experiment", "part.jsonc", "--shards", "2", ...url], /Leave "shard" out of part\.jsonc/],
      [["./own.jsonl", "--shards", "2", ...url], /own\.jsonl is a file here, which pods do not see/],
      [
        ["gsm8k", "--shards", "2", "--config", "moa-9-3-1", "--simulate", "--cost", "32b=mine.json"],
        /mine\.json is a file here, which pods do not see/,
      ],
      [["gsm8k", "--shards", "2", ...url, "--prices", "p.jsonc"], /p\.jsonc is a file here, which pods/],
      [["gsm8k", "--shards", "2", "--config", "none.jsonc"], /none\.jsonc: there is no such file/],
      [["gsm8k", "--shards", "2", "--url", "http://me:word@s"], /url has a password/],
      [["gsm8k", "--shard", "1/2", "--shards", "2"], /Unknown option --shard: did you mean --shards\?/],
    ];
    for (const [args, message] of refused) {
      const { code, err, out } = await emitted(cwd, ...args);
      assert.deepEqual([code === 0, out], [false, ""], args.join(" "));
      assert.match(err, message);
      assert.doesNotMatch(err, /me:word/);
    }
  });
});
