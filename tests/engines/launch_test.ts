/** `canopy launch` over real vLLM and SGLang on a CPU: the code path that starts engines on GPUs, but for the device. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { selfCommand } from "../../launcher/commands/self_command.ts";
import { type LaunchState, readState } from "../../launcher/supervise/launch_state.ts";
import { groupRuns, systemProcessTable } from "../../launcher/supervise/process_table.ts";
import { enginesFolder, eventually, isInstalled, tinyModel } from "./engine_process.ts";
import { send } from "./http_request.ts";

const table = systemProcessTable();
const shim = fileURLToPath(new URL("./shim", import.meta.url));
const mooncake = join(enginesFolder, "mooncake-0.3.10.post2");
const offline = { HF_HUB_OFFLINE: "1", TRANSFORMERS_OFFLINE: "1", OMP_NUM_THREADS: "1" };

/** A tree of two proposers on both engines and a root. */
const config = {
  server: { port: 0 },
  launch: {
    device: "cpu",
    vllm: {
      // The package's own `vllm` command fails: it looks up a distribution of that name.
      command: [
        join(enginesFolder, "vllm-0.32.0", "bin", "python"),
        "-m",
        "vllm.entrypoints.openai.api_server",
      ],
      env: { ...offline, TORCHDYNAMO_DISABLE: "1", VLLM_NO_USAGE_STATS: "1" },
      extra_args: [
        ...["--enforce-eager", "--block-size", "32", "--num-gpu-blocks-override", "2048"],
        ...["--distributed-executor-backend", "uni"],
      ],
    },
    sglang: {
      command: [join(enginesFolder, "sglang-base", "bin", "python"), "-m", "sglang.launch_server"],
      version: "0.5.18",
      env: {
        ...offline,
        MKL_NUM_THREADS: "1",
        TOKENIZERS_PARALLELISM: "false",
        PYTHONPATH: [shim, join(enginesFolder, "sglang-0.5.18"), mooncake].join(":"),
        LD_LIBRARY_PATH: join(mooncake, "nvidia", "cuda_runtime", "lib"),
      },
    },
  },
  models: {
    v: {
      model: "tiny-qwen3",
      engine: "vllm",
      tokenizer: false,
      context_tokens: 8192,
      launch: { weights: tinyModel },
    },
    s: {
      model: "tiny-qwen3",
      engine: "sglang",
      tokenizer: false,
      context_tokens: 8192,
      launch: { weights: tinyModel },
    },
  },
  graphs: {
    moa: {
      sampling: { max_tokens: 16, temperature: 0 },
      layers: [{ agents: [{ model: "v" }, { model: "s" }] }, { agents: [{ model: "s" }] }],
    },
  },
};

const kinds = [{ engine: "vllm", version: "0.32.0" }, { engine: "sglang", version: "0.5.18" }] as const;

test("a launch starts real engines, serves a tree, brings back one that was killed, and leaves nothing behind", async () => {
  for (const kind of kinds) assert.ok(isInstalled(kind), `${kind.engine} ${kind.version} is not installed`);
  const root = await mkdtemp(join(tmpdir(), "canopy-launch-"));
  const folder = join(root, "default");
  const file = join(root, "canopy.json");
  await writeFile(file, JSON.stringify(config));
  let output = "";
  let ended: number | null | undefined;
  let child: ChildProcess | undefined;
  const seen = new Set<number>();
  const state = (): LaunchState => {
    const read = readState(folder);
    assert.ok(read !== undefined, output);
    for (const { pid } of read.engines) if (pid !== undefined) seen.add(pid);
    return read;
  };
  try {
    const args = ["launch", file, "--state-dir", root, "--dtype", "float32", "--ready-timeout", "200"];
    const [program, ...rest] = selfCommand(args);
    child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => output += chunk);
    child.once("close", (code) => ended = code);
    const ready = () => Promise.resolve(ended !== undefined || /listening on http/.test(output));
    await eventually("both engines are served", ready, 240_000);
    assert.equal(ended, undefined, output);
    const url = /listening on (http:\S+)/.exec(output)?.[1] ?? "";
    assert.match(output, /v: loading the weights/);
    assert.match(output, /s: loading the weights/);

    const ask = () => {
      const messages = [{ role: "user", content: "What is 2+2?" }];
      return send("POST", `${url}/v1/chat/completions`, { model: "moa", messages });
    };
    const answer = await ask();
    assert.equal(answer.status, 200, answer.text);
    assert.equal(JSON.parse(answer.text).usage.completion_tokens, 48);

    const before = state().engines.find(({ name }) => name === "v");
    assert.ok(before?.pid !== undefined);
    table.signal(before.pid, "SIGKILL");
    const down = () => Promise.resolve(/v: starts again soon: the engine was killed/.test(output));
    await eventually("the end is noticed", down, 5_000);
    assert.equal((await ask()).status, 200, "the tree is served by the other engine");
    const back = () =>
      Promise.resolve(state().engines.some(({ name, phase }) => name === "v" && phase === "ready"));
    await eventually("the engine is back", back, 120_000);
    assert.equal((await ask()).status, 200);

    process.kill(child.pid ?? 0, "SIGTERM");
    await eventually("the launch ends", () => Promise.resolve(ended !== undefined), 60_000);
    assert.equal(ended, 0, output);
    for (const group of seen) assert.ok(!groupRuns(table, group), `process group ${group} is left`);
  } finally {
    if (child?.pid !== undefined && ended === undefined) {
      process.kill(child.pid, "SIGTERM");
      for (let waits = 0; ended === undefined && waits < 300; waits++) await sleep(100);
    }
    await rm(root, { recursive: true, force: true });
  }
});
