import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { knownGpuNames } from "../../../launcher/host/gpus_described.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { planCommand } from "../../../cli/plan/plan.ts";
import { fakeIo } from "../fake_io.ts";

const fixtures = join(dirname(fileURLToPath(import.meta.url)), "../../fixtures/launcher");

async function plan(...args: string[]) {
  const io = fakeIo({ env: { HF_HOME: "/nowhere", HF_ENDPOINT: "http://hub" } });
  const code = await runCommand([planCommand], ["plan", ...args], io);
  return { code, out: io.out.text, err: io.err.text };
}

test("canopy plan prints GPUs, engines with reasons, notes and commands", async () => {
  const { code, out } = await plan("launch-2-gpus-vllm", "--gpus", join(fixtures, "a100x2.txt"));
  assert.equal(code, 0);
  assert.equal(
    out.replaceAll(fixtures, "FIXTURES"),
    `GPUs (FIXTURES/a100x2.txt, driver 550.54.15):
  GPU 0: NVIDIA A100 80GB PCIe, 80.0 GiB
  GPU 1: NVIDIA A100 80GB PCIe, 80.0 GiB

ENGINE  FAMILY  GPU  PORT   SHARE  WEIGHTS   CACHE     TOKENS  CONTEXT
8b-1    vllm    0    30000  0.921  16.3 GiB  53.2 GiB  387463  262144
8b-2    vllm    1    30001  0.921  16.3 GiB  53.2 GiB  387463  262144

8b-1: alone on GPU 0.
8b-2: alone on GPU 1.

Note: The embedding model of the scorer runs on this host's CPU, inside Canopy.

# 8b-1
CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-VL-8B-Instruct --host 127.0.0.1 --port 30000 --gpu-memory-utilization 0.921 --enable-prompt-tokens-details

# 8b-2
CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 vllm serve Qwen/Qwen3-VL-8B-Instruct --host 127.0.0.1 --port 30001 --gpu-memory-utilization 0.921 --enable-prompt-tokens-details
`,
  );
});

test("canopy plan --json tells programs the same", async () => {
  const { code, out } = await plan("launch-2-gpus-pd", "--gpus", "2xH200", "--json");
  assert.equal(code, 0);
  const { host, engines, workers, protocols } = JSON.parse(out);
  assert.deepEqual(host.links, [[0, 1]]);
  assert.deepEqual(engines.map((engine: { name: string; gpus: string[] }) => [engine.name, engine.gpus]), [
    ["8b-prefill", ["0"]],
    ["8b-decode", ["1"]],
  ]);
  assert.equal(workers["8b"][0].bootstrap_port, 8_998);
  assert.equal(protocols["8b"], "sglang-pd");
});

test("canopy plan --emit writes files, and model2port.json for MoA-vllm's configuration", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-plan-"));
  try {
    const moa = join(fixtures, "../cfgs/moa_vllm/configs.json");
    const { code, out, err } = await plan(
      moa,
      "--gpus",
      "2xA100",
      "--base-port",
      "8010",
      "--emit",
      "systemd",
      "--out",
      folder,
    );
    assert.equal(`${code} ${err}`, "0 ");
    assert.ok(out.includes(join(folder, "canopy.target")));
    assert.ok(readdirSync(folder).includes("canopy-router.service"));
    const ports = JSON.parse(readFileSync(join(folder, "model2port.json"), "utf8"));
    assert.ok(Object.values(ports).every((port) => Number(port) >= 8_010));
  } finally {
    rmSync(folder, { recursive: true });
  }
  const { out } = await plan("launch-2-gpus-pd", "--gpus", "2xH200", "--emit", "compose");
  assert.match(out, /^# --- compose\.yaml\n/);
});

test("what is there already is overwritten only with --force, and the configuration itself never", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-plan-"));
  try {
    const config = join(folder, "canopy.jsonc");
    const text = '{ "models": { "8b": { "model": "Qwen/Qwen3-8B", "engine": "vllm", "launch": {} } } }';
    writeFileSync(config, text);
    const emit = (out: string, ...more: string[]) =>
      plan(config, "--gpus", "1xH200", "--emit", "compose", "--out", out, ...more);
    const refused = await emit(folder);
    assert.equal(refused.code, 1);
    assert.match(refused.err, /canopy\.jsonc.*is the configuration itself.*--out/);
    assert.match((await emit(folder, "--force")).err, /is the configuration itself/);
    assert.deepEqual(readdirSync(folder), ["canopy.jsonc"], "nothing is written by halves");
    assert.equal(readFileSync(config, "utf8"), text);

    const out = join(folder, "deploy");
    assert.equal((await emit(out)).code, 0);
    assert.equal((await emit(out)).code, 0, "the same again changes nothing");
    writeFileSync(join(out, "compose.yaml"), "mine");
    const kept = await emit(out);
    assert.equal(kept.code, 1);
    assert.match(kept.err, /compose\.yaml.*is there already.*--force/);
    assert.equal(readFileSync(join(out, "compose.yaml"), "utf8"), "mine");
    assert.equal((await emit(out, "--force")).code, 0);
    assert.match(readFileSync(join(out, "compose.yaml"), "utf8"), /^services:/m);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a host's GPUs are read from a file that Windows' editors have saved; what is no file is told", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-plan-"));
  try {
    const host = join(folder, "host.txt");
    const text = readFileSync(join(fixtures, "a100x2.txt"), "utf8");
    writeFileSync(host, `\ufeff${text.replaceAll("\n", "\r\n")}`);
    const { out } = await plan("launch-2-gpus-vllm", "--gpus", host);
    assert.equal(out.match(/^ {2}GPU \d: /gm)?.length, 2, out);
    const { code, err } = await plan("launch-2-gpus-vllm", "--gpus", folder);
    assert.equal(code, 2);
    mkdirSync(join(folder, "2xH200"));
    const io = fakeIo({ cwd: folder, env: { HF_HOME: "/nowhere", HF_ENDPOINT: "http://hub" } });
    const named = ["plan", "launch-2-gpus-vllm", "--gpus", "2xH200"];
    assert.equal(await runCommand([planCommand], named, io), 0, io.err.text);
    assert.match((await plan("launch-2-gpus-vllm", "--gpus", "")).err, /Option --gpus must be like 6xH200/);
    assert.match(err, /Option --gpus names the file .*, which cannot be read: EISDIR/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("files of this host that the router's container has not are told", async () => {
  const settings = [
    "server.records.file=runs.sqlite",
    'server.worker_tls={"ca":["/etc/ca.pem"]}',
    "scorer.model=./embedder",
    "models.8b.tokenizer=/models/8b",
  ];
  const args = ["launch-2-gpus-vllm", "--gpus", "2xH200", ...settings.flatMap((one) => ["--set", one])];
  const { err } = await plan(...args, "--emit", "compose");
  assert.deepEqual(
    [...err.matchAll(/^(\S+) names a file or folder of this host: mount it/gm)].map(([, path]) => path),
    [
      "server.worker_tls.ca[0]",
      "server.records.file",
      "scorer.model",
      "models.8b.tokenizer",
    ],
  );
  assert.doesNotMatch((await plan(...args, "--emit", "slurm")).err, /of this host/);
});

test("options of files are refused where none is written", async () => {
  const refused = async (...args: string[]) => {
    const { code, out, err } = await plan("launch-2-gpus-vllm", "--gpus", "2xH200", ...args);
    assert.deepEqual([code, out], [2, ""]);
    return err;
  };
  assert.match(await refused("--json", "--out", "deploy"), /Options --json and --out exclude each other/);
  assert.match(await refused("--canopy-image", "canopy:1"), /Option --canopy-image needs --emit/);
  assert.match(await refused("--canopy-binary", "/bin/canopy"), /Option --canopy-binary needs --emit/);
  assert.match(await refused("--emit", "slurm", "--force"), /Option --force.*give --out/);
});

test("canopy plan says in one sentence why it cannot", async () => {
  assert.deepEqual(await plan("moa-9-3-1", "--gpus", "six"), {
    code: 2,
    out: "",
    err:
      "canopy plan: Option --gpus must be like 6xH200, 2xA100-40GB,1xL4 or 4x48GB (at most 64 GPUs), or a file " +
      `with the output of nvidia-smi: current value is "six"; known names: ${knownGpuNames.join(", ")} ` +
      '(see "canopy plan --help")\n',
  });
  assert.equal(
    (await plan("moa-9-3-1", "--gpus", "hosts/none.txt")).err,
    "canopy plan: Option --gpus names the file hosts/none.txt, which does not exist " +
      '(see "canopy plan --help")\n',
  );
  const { code, err } = await plan("moa-9-3-1", "--gpus", "1xL4");
  assert.equal(code, 1);
  assert.match(err, /^canopy plan: Cannot place 32b: it needs .* more GPUs like NVIDIA L4\n$/);
  const unknown = await plan("moa-9-3-1", "--gpus", "1xH200", "--set", "models.4b.model=org/none");
  assert.equal(
    unknown.err,
    'canopy plan: Cannot plan "org/none": Request to http://hub/org/none/resolve/main/config.json failed: connect ' +
      "failed; give the folder of its weights as launch.weights, or fetch them first\n",
  );
  assert.equal((await plan("moa-9-3-1", "--gpus", "1xH200", "--json", "--emit", "slurm")).code, 2);
  const image = await plan("moa-9-3-1", "--gpus", "6xH200", "--canopy-image", "here/canopy");
  assert.equal(image.code, 2);
  assert.match(image.err, /--canopy-image needs --emit/);
});
