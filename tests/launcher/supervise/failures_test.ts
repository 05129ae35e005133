import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { loggedFailure, startSign } from "../../../launcher/logs/log_patterns.ts";
import type { PlannedEngine } from "../../../launcher/plan/launch_plan.ts";
import { explainExit, explainFailure } from "../../../launcher/supervise/explain_failure.ts";
import { plannedEngine } from "../fake_processes.ts";

// The logs in tests/fixtures/launcher/logs are those of real engines on a CPU, the lines below are from the engines' sources.

function recorded(name: string): string[] {
  return readFileSync(new URL(`../../fixtures/launcher/logs/${name}.txt`, import.meta.url), "utf8").split(
    "\n",
  );
}

const shape = {
  model: "org/big-32b",
  weightBytes: 64e9,
  kvBytesPerToken: 1,
  layers: 1,
  hiddenSize: 1,
  attentionHeads: 1,
  kvHeads: 1,
  vocabSize: 1,
  weightType: "bf16",
  maxContextTokens: 32_768,
  source: "test",
};
const vllm = plannedEngine("32b", 30_002, { shape, gpus: [2, 3], tensorParallel: 2, memoryFraction: 0.92 });
const sglang: PlannedEngine = { ...vllm, family: "sglang", memoryFraction: 0.81, contextTokens: 32_768 };

/** The sentence for a log; fails when nothing is recognised. */
function sentence(
  lines: readonly string[],
  engine: PlannedEngine = vllm,
  env: Record<string, string> = {},
): string {
  const failure = loggedFailure(lines);
  assert.ok(failure !== undefined, `not recognised: ${lines.at(-1)}`);
  return explainFailure(engine, failure, env).sentence;
}

const portTaken =
  "32b: port 30002 on 127.0.0.1 is taken: stop what uses it, or choose others with launch.base_port";

test("no driver: the log of an engine without a GPU names the driver and the rehearsal", () => {
  const expected = "32b: vLLM finds no GPU driver: install it (nvidia-smi must work), " +
    "or rehearse without GPUs with --engine sim";
  assert.equal(
    sentence([
      "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging",
    ]),
    expected,
  );
  assert.equal(
    sentence([
      "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    ]),
    expected,
  );
});

test("an old driver: the log names the driver and the version to set", () => {
  assert.equal(
    sentence(["RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."]),
    "32b: the GPU driver is too old for the installed vLLM: update the driver, " +
      "or set launch.vllm.version to a vLLM made for it",
  );
});

test("a wrong version: an option that the installed engine does not know is named, with what to set", () => {
  assert.equal(
    sentence(recorded("vllm-unknown-flag")),
    "32b: the installed vLLM does not take this option (--not-a-flag): set launch.vllm.version to the installed " +
      "version, or correct models.32b.launch.extra_args",
  );
  assert.equal(
    sentence(recorded("sglang-unknown-flag"), sglang),
    "32b: the installed SGLang does not take this option (--not-a-flag 3): set launch.sglang.version to the installed " +
      "version, or correct models.32b.launch.extra_args",
  );
  assert.equal(
    sentence([
      "ValueError: The checkpoint you are trying to load has model type `qwen9` but Transformers does not recognize this architecture.",
    ]),
    "32b: the installed vLLM is too old for model org/big-32b: upgrade vLLM",
  );
});

test("not installed: the command to name is said", () => {
  assert.equal(
    sentence(["/usr/bin/python3: No module named vllm"]),
    "32b: vLLM is not installed for the Python that was started: install it there, " +
      "or name the command in launch.vllm.command",
  );
});

test("a port taken: real vLLM 0.32.0, SGLang 0.5.18 and 0.5.23; vLLM's own search for a port is none", () => {
  assert.equal(sentence(recorded("vllm-port-taken")), portTaken);
  assert.equal(sentence(recorded("sglang-port-taken"), sglang), portTaken);
  assert.equal(sentence(recorded("sglang23-port-taken"), sglang), portTaken);
  assert.equal(loggedFailure(["WARNING Port 5600 is already in use, trying port 5601"]), undefined);
});

test("a model that is not there: neither a folder nor on the Hub, or the Hub out of reach", () => {
  const missing = "32b: model org/big-32b is neither on the Hub nor a folder with a config.json: " +
    "correct models.32b.model, or set HF_TOKEN if it is private";
  assert.equal(sentence(recorded("vllm-no-config")), missing);
  assert.equal(
    sentence(["huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error."], sglang),
    missing,
  );
  const unreachable = "32b: model org/big-32b is not in the local cache and the Hub cannot be reached: " +
    "check the network and HF_HUB_OFFLINE, or name a folder in models.32b.launch.weights";
  assert.equal(sentence(recorded("vllm-not-found")), unreachable);
  assert.equal(sentence(recorded("vllm-not-found-offline")), unreachable);
  assert.equal(sentence(recorded("sglang-not-found"), sglang), unreachable);
});

test("a gated model: with and without a token", () => {
  const line = "OSError: You are trying to access a gated repo.";
  assert.equal(
    sentence([line]),
    "32b: model org/big-32b is gated: accept its terms on its page on the Hub, " +
      "and set HF_TOKEN to a token of that account",
  );
  assert.equal(
    sentence([line], sglang, { HF_TOKEN: "hf_x" }),
    "32b: model org/big-32b is gated and the token in HF_TOKEN may not read it: " +
      "accept its terms on its page on the Hub with that account",
  );
});

test("out of memory: each way to run out of it names the setting to change", () => {
  assert.equal(
    sentence(["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."]),
    "32b: GPUs 2, 3 ran out of memory: lower models.32b.launch.memory_fraction (now 0.92), " +
      "or raise models.32b.launch.tensor_parallel (now 2)",
  );
  assert.equal(
    sentence(["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."], sglang),
    "32b: GPUs 2, 3 ran out of memory: lower models.32b.launch.memory_fraction (now 0.81) or " +
      "models.32b.context_tokens, or raise models.32b.launch.tensor_parallel (now 2)",
  );
  assert.equal(
    sentence(recorded("vllm-small-kv")),
    "32b: the cache is too small for the longest context of model org/big-32b: set models.32b.context_tokens " +
      "to at most 96, or raise models.32b.launch.memory_fraction (now 0.92)",
  );
  assert.equal(
    sentence(recorded("sglang-oom"), sglang),
    "32b: the weights of model org/big-32b leave no memory for the cache on GPUs 2, 3: raise " +
      "models.32b.launch.memory_fraction (now 0.81), or models.32b.launch.tensor_parallel (now 2)",
  );
  assert.equal(
    sentence([
      "ValueError: Free memory on device cuda:0 (20.41/139.72 GiB) on startup is less than desired GPU memory utilization (0.92, 128.54 GiB).",
    ]),
    "32b: other programs use GPUs 2, 3: only 20.41 of 139.72 GiB are free; end them, or lower " +
      "models.32b.launch.memory_fraction (now 0.92)",
  );
});

test("disk full and shared memory: what to free, or where to go", () => {
  assert.equal(
    sentence(["OSError: [Errno 28] No space left on device"]),
    "32b: the disk is full: free some space, or set HF_HOME to a folder on a larger disk",
  );
  assert.equal(
    sentence([
      "RuntimeError: unable to allocate shared memory(shm) for file </torch_1>: No space left on device (28)",
    ]),
    "32b: there is too little shared memory: make /dev/shm larger (in a container: --shm-size 16g, or --ipc=host)",
  );
});

test("an end that the log does not explain is told as it was", () => {
  const { sentence: killed } = explainExit(vllm, { code: undefined, signal: "SIGKILL" }, true);
  assert.match(
    killed,
    /^32b: the engine was killed: if nobody did it on purpose, the host ran out of memory/,
  );
  const { sentence: ended } = explainExit(vllm, { code: 7, signal: undefined }, false);
  assert.equal(ended, "32b: the engine ended with code 7 before it was ready");
});

test("a container that docker does not start: the GPUs, the daemon or the image", () => {
  assert.equal(
    sentence([
      'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    ]),
    "32b: docker cannot give the container GPUs: install the NVIDIA Container Toolkit and restart docker",
  );
  assert.equal(
    sentence([
      "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    ]),
    "32b: docker's daemon cannot be reached: start it, or let this user use it (group docker)",
  );
  assert.equal(
    sentence([
      "Unable to find image 'vllm/none:v1' locally",
      "docker: Error response from daemon: pull access denied for vllm/none, repository does not exist or may require 'docker login'",
    ], { ...vllm, image: "vllm/none:v1" }),
    "32b: docker cannot pull the image vllm/none:v1: correct models.32b.launch.image or launch.vllm.image, or log in (docker login)",
  );
});

test("lines of real starts tell the phase", () => {
  const phases = (lines: readonly string[]) => lines.map((line) => startSign(line)?.phase);
  assert.deepEqual(
    phases([
      "Multi-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]",
      "[2026-11-21 13:27:43] Load weight begin. avail mem=21.65 GB",
      "[2026-11-21 13:27:43] Capture target decode CUDA graph begin. backend=full, avail mem=3.1 GB",
      "Capturing batches (bs=512 avail_mem=9.76 GB):   2%|▏         | 1/52",
      "(EngineCore pid=9) INFO Starting to load model Qwen/Qwen3-8B...",
      "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  61%|██████    | 41/67",
      "INFO:     Application startup complete.",
      "model-00003-of-00014.safetensors:  12%|█▏        | 461M/3.87G",
      'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK',
      "5ed3a44a4b5b: Pull complete",
    ]),
    [
      "loading",
      "loading",
      "capturing",
      "capturing",
      "loading",
      "capturing",
      "warming",
      "downloading",
      undefined,
      "downloading",
    ],
  );
  assert.equal(startSign("model-00003-of-00014.safetensors:  12%|█▏  | 461M/3.87G")?.percent, 12);
});
