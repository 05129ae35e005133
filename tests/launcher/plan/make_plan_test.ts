import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../base/json.ts";
import { noGpus } from "../../../launcher/host/gpu.ts";
import { describedGpus } from "../../../launcher/host/gpus_described.ts";
import { nothingKnown } from "../../../launcher/host/installed.ts";
import {
  type LaunchPlan,
  modelPortsOf,
  type PlannedEngine,
  withPlannedWorkers,
} from "../../../launcher/plan/launch_plan.ts";
import { shellLine } from "../../../launcher/plan/plan_text.ts";
import { configOf, planned, recorded } from "../planned.ts";

const tree: JsonObject = { moa: { layers: [{ agents: [{ model: "8b" }] }, { agents: [{ model: "8b" }] }] } };

function oneModel(model: JsonObject, more: JsonObject = {}): JsonObject {
  return { models: { "8b": { model: "Qwen/Qwen3-8B", launch: {}, ...model } }, graphs: tree, ...more };
}

function linesOf(plan: LaunchPlan): string[] {
  return plan.engines.map((engine) => shellLine(engine.command));
}

test("The tree on six H200: a pair for each model, all apart, and workers for the router", async () => {
  const plan = await planned(configOf("launch-6-gpus-pd"), recorded("h200x6.txt"));
  assert.deepEqual(
    plan.engines.map((engine) => [engine.name, engine.gpus[0]?.id, engine.port, engine.bootstrapPort]),
    [
      ["4b-prefill", "4", 30_000, 8_998],
      ["4b-decode", "5", 30_001, undefined],
      ["8b-prefill", "2", 30_002, 8_999],
      ["8b-decode", "3", 30_003, undefined],
      ["32b-prefill", "0", 30_004, 9_000],
      ["32b-decode", "1", 30_005, undefined],
    ],
  );
  assert.deepEqual(plan.workers.get("8b"), [{
    prefill: "http://127.0.0.1:30002",
    bootstrap_port: 8_999,
    decode: "http://127.0.0.1:30003",
  }]);
  assert.deepEqual(plan.notes, ["The embedding model of the scorer runs on this host's CPU, inside Canopy"]);
});

test("The tree on one H200 and on two A100: engines that share a GPU fit whoever starts last", async () => {
  const one = await planned(configOf("launch-1-gpu"), recorded("h200x1.txt"));
  assert.deepEqual(one.engines.map((engine) => engine.gpus[0]?.id), ["0", "0", "0"]);
  const taken = ({ memory }: PlannedEngine) =>
    memory === undefined ? 0 : memory.weightsMiB + memory.kvMiB + memory.activationMiB + memory.graphsMiB;
  for (const engine of one.engines) {
    const { memory, memoryFraction = 0 } = engine;
    assert.ok(memory !== undefined);
    // Started again after a crash, it finds free what the others leave. SGLang's own formula: what is free when the
    // weights are loaded, less the part of what was free before that the fraction leaves.
    const free = one.engines.reduce(
      (left, other) => other === engine ? left : left - taken(other),
      143_771 - 1,
    );
    const cacheMiB = free - memory.weightsMiB - free * (1 - memoryFraction);
    assert.ok(cacheMiB >= memory.kvMiB, `${engine.name}: ${cacheMiB} MiB of ${memory.kvMiB}`);
    const limit = engine.command.argv.indexOf("--max-total-tokens");
    assert.equal(engine.command.argv[limit + 1], String(memory.kvTokens));
  }
  const two = await planned(configOf("launch-1-gpu"), recorded("a100x2.txt"));
  assert.deepEqual(two.engines.map((engine) => engine.gpus[0]?.id), ["1", "1", "0"]);
  assert.deepEqual(two.engines[2]?.reasons, [
    "alone on GPU 0",
    "context cut from 262144 tokens to what the cache holds",
  ]);
});

test("Busy GPUs are left alone", async () => {
  const plan = await planned(configOf("launch-2-gpus-pd"), recorded("h200x6_busy.txt"));
  assert.deepEqual(plan.engines.map((engine) => engine.gpus[0]?.id), ["1", "3"]);
  assert.match(plan.notes[0] ?? "", /^GPU 4 of 6 will be idle/);
});

test("The commands of SGLang: plain, halves of a pair by links, version and installed libraries", async () => {
  const plain = await planned(
    configOf(oneModel({ engine: "sglang", context_tokens: 32_768 })),
    describedGpus("1xH200"),
  );
  assert.deepEqual(linesOf(plain), [
    "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B " +
    "--host 127.0.0.1 --port 30000 --context-length 32768 --mem-fraction-static 0.846 --enable-metrics " +
    "--enable-cache-report",
  ]);
  const pair = async (gpus: string, installed: Partial<typeof nothingKnown>, launch: JsonObject = {}) => {
    const config = configOf(oneModel({ engine: "sglang-pd", launch }));
    const host = describedGpus(gpus);
    const plan = await planned(config, host, {
      installedFor: () => Promise.resolve({ ...nothingKnown, ...installed }),
    });
    return linesOf(plan).map((line) =>
      /--disaggregation.*$/.exec(line)?.[0] + ` ${/MC_\w+=\w+/.exec(line)?.[0] ?? ""}`
    );
  };
  assert.deepEqual(await pair("2xL40S", {}), [
    "--disaggregation-mode prefill --disaggregation-transfer-backend mooncake_tcp --disaggregation-bootstrap-port 8998 " +
    "MC_FORCE_TCP=1",
    "--disaggregation-mode decode --disaggregation-transfer-backend mooncake_tcp MC_FORCE_TCP=1",
  ]);
  const [nvlink] = await pair("2xH200", {});
  assert.match(
    nvlink ?? "",
    /backend mooncake --disaggregation-bootstrap-port 8998 MC_INTRANODE_NVLINK=true$/,
  );
  const [old] = await pair("2xH200", { sglang: "0.5.10.post1", mooncake: "0.3.10" });
  assert.match(old ?? "", /backend mooncake --disaggregation-bootstrap-port 8998 MC_FORCE_TCP=1$/);
  const [rdma] = await pair("2xL40S", { rdma: true });
  assert.match(rdma ?? "", /backend mooncake --disaggregation-bootstrap-port 8998 $/);
  const [nixl] = await pair("2xL40S", { nixl: "1.5.1" });
  assert.match(nixl ?? "", /backend nixl --disaggregation-bootstrap-port 8998 $/);
  const own = await pair("2xL40S", {}, {
    extra_args: ["--x"],
    prefill_args: ["--p"],
    decode_args: ["--d", "a b"],
  });
  assert.match(own[0] ?? "", /8998 --x --p MC_FORCE_TCP=1$/);
  assert.match(own[1] ?? "", /mooncake_tcp --x --d 'a b' MC_FORCE_TCP=1$/);
});

test("The commands of vLLM: divided, by fraction, NIXL roles by version, another command and name", async () => {
  const large = configOf({
    models: {
      "70b": {
        model: "llama",
        engine: "vllm-pd",
        launch: {
          weights: "meta-llama/Llama-3.1-70B-Instruct",
          command: ["/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server"],
          env: { VLLM_LOGGING_LEVEL: "DEBUG" },
        },
      },
    },
  });
  const plan = await planned(large, describedGpus("4xA100"), { contextTokens: 16_384, dtype: "bfloat16" });
  assert.equal(
    linesOf(plan)[1],
    "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,3 VLLM_NIXL_SIDE_CHANNEL_HOST=127.0.0.1 " +
      "VLLM_NIXL_SIDE_CHANNEL_PORT=5608 VLLM_LOGGING_LEVEL=DEBUG /opt/vllm/bin/python -m " +
      "vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-70B-Instruct --served-model-name llama " +
      "--host 127.0.0.1 --port 30001 --dtype bfloat16 --max-model-len 16384 --tensor-parallel-size 2 " +
      "--gpu-memory-utilization 0.93 --max-num-batched-tokens 2048 --max-num-seqs 64 --enable-prompt-tokens-details " +
      "--kv-transfer-config " +
      `'{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}'`,
  );
  assert.match(plan.engines[0]?.reasons[1] ?? "", /^divided among 2 GPUs: 131\.4 GiB of weights/);
  const old = configOf(oneModel({ engine: "vllm-pd", launch: { version: "0.11.0" } }));
  for (const line of linesOf(await planned(old, describedGpus("2xA100")))) {
    assert.match(line, /"kv_role":"kv_both"/);
  }
});

test("A container gets its GPUs, the cache, tokens by name, and the engine's own command", async () => {
  const config = configOf(
    oneModel({ engine: "vllm", launch: { image: "vllm/vllm-openai:v0.32.0", env: { A: "b c" } } }),
  );
  const plan = await planned(config, describedGpus("1xA100"), {
    env: { HF_HOME: "/cache", HF_TOKEN: "secret" },
  });
  assert.equal(
    linesOf(plan)[0],
    `docker run --rm --init --name canopy-8b --network host --ipc host --gpus '"device=0"' --volume ` +
      "/cache:/root/.cache/huggingface --env 'A=b c' --env HF_TOKEN --entrypoint vllm vllm/vllm-openai:v0.32.0 serve " +
      "Qwen/Qwen3-8B --host 127.0.0.1 --port 30000 --gpu-memory-utilization 0.921 --enable-prompt-tokens-details",
  );
  assert.equal(plan.engines[0]?.bare.argv[0], "vllm");
});

test("AMD's cards are chosen by HIP_VISIBLE_DEVICES", async () => {
  const plan = await planned(configOf(oneModel({ engine: "vllm" })), recorded("mi300x8.json"));
  assert.match(linesOf(plan)[0] ?? "", /^HIP_VISIBLE_DEVICES=0 vllm serve /);
});

test("A rehearsal needs no GPU: simulated engines on the configuration's ports, pairs as one process", async () => {
  const plain = await planned(configOf("moa-9-3-1"), noGpus, { engine: "sim" });
  assert.deepEqual(linesOf(plain), [
    "canopy sim --engine sglang --model Qwen/Qwen3-VL-4B-Instruct --cost 4b --host 127.0.0.1 --port 30000",
    "canopy sim --engine sglang --model Qwen/Qwen3-VL-8B-Instruct --cost 8b --host 127.0.0.1 --port 30001",
    "canopy sim --engine sglang --model Qwen/Qwen3-VL-32B-Instruct --cost 32b --host 127.0.0.1 --port 30002",
  ]);
  const watched = configOf(
    oneModel({ engine: "vllm" }, { server: { port: 30_000, metrics: { port: 30_001 } } }),
  );
  const [engine] = (await planned(watched, noGpus, { engine: "sim" })).engines;
  assert.equal(engine?.port, 30_002, "the router's ports are its own");
  const config = configOf(oneModel({ engine: "sglang-pd" }, { launch: { sim_args: ["--speedup", "100"] } }));
  const pair = await planned(config, recorded("h200x6.txt"), { engine: "sim", basePort: 31_000 });
  assert.deepEqual(
    pair.engines.map((engine) => [engine.name, engine.within, engine.port, engine.gpus[0]?.id]),
    [
      ["8b-prefill", undefined, 31_000, "0"],
      ["8b-decode", "8b-prefill", 31_001, "1"],
    ],
  );
  assert.equal(
    linesOf(pair)[0],
    "canopy sim --engine sglang --model Qwen/Qwen3-8B --cost 8b --host 127.0.0.1 --port 31000 --pd-prefill 1 " +
      "--pd-decode 1 --bootstrap-port 8998 --speedup 100",
  );
  assert.deepEqual(pair.workers.get("8b"), [{
    prefill: "http://127.0.0.1:31000",
    bootstrap_port: 8_998,
    decode: "http://127.0.0.1:31001",
  }]);
});

test("Addresses elsewhere are kept, and --engine changes what the others speak", async () => {
  const workers = ["http://gpu7:30000", "http://127.0.0.1:30100"];
  const config = configOf(oneModel({ engine: "sglang", workers }));
  const plan = await planned(config, describedGpus("1xH200"), { engine: "vllm" });
  assert.deepEqual(plan.engines.map((engine) => [engine.family, engine.port]), [["vllm", 30_100]]);
  const model = withPlannedWorkers(config, plan).models["8b"];
  assert.deepEqual([model?.engine, model?.workers], ["vllm", workers]);
  const ollama = await planned(configOf("ollama-3-1"), noGpus);
  assert.deepEqual([ollama.engines.length, ollama.notes.some((note) => /served elsewhere/.test(note))], [
    0,
    true,
  ]);
});

test("Without a GPU an engine gets the options that let it run on the CPU", async () => {
  const config = configOf(oneModel({ engine: "sglang-pd" }, { launch: { device: "cpu" } }));
  const lines = linesOf(await planned(config, noGpus));
  assert.match(lines[1] ?? "", /^CUDA_VISIBLE_DEVICES='' SGLANG_USE_CPU_ENGINE=1 MC_FORCE_TCP=1 python3 /);
  assert.match(
    lines[1] ?? "",
    /--device cpu .*--sleep-on-idle .*--disaggregation-decode-retraction-backup cpu_tensor$/,
  );
});

test("model2port.json has the port of each model under its name, counted from the base port", async () => {
  const config = configOf("moa-vllm-example");
  const plan = await planned(config, describedGpus("2xL4"), { basePort: 8_010 });
  assert.deepEqual(modelPortsOf(config, plan), {
    "Qwen/Qwen3-8B": 8_010,
    "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B": 8_011,
  });
});

test("Free ports are looked for, and a named port that is taken is an error", async () => {
  const taken = (...ports: number[]) => ({
    probe: (_: string, port: number) =>
      Promise.resolve(ports.includes(port) ? `port ${port} is in use` : undefined),
  });
  const config = configOf(oneModel({ engine: "vllm", launch: { replicas: 2 } }));
  const plan = await planned(config, describedGpus("2xH200"), taken(30_000, 30_002));
  assert.deepEqual(plan.engines.map((engine) => engine.port), [30_001, 30_003]);
  assert.ok(plan.notes.includes("Ports that others use were left out: 30000, 30002"));
  const named = configOf(oneModel({ engine: "vllm", workers: ["http://127.0.0.1:30100"] }));
  await assert.rejects(planned(named, describedGpus("1xH200"), taken(30_100)), {
    code: "port_taken",
    message: "Cannot plan engine 8b on port 30100: port 30100 is in use; or let free ports be found with " +
      "--base-port 31100",
  });
  const own = configOf(oneModel({ engine: "vllm", workers: ["http://127.0.0.1:8000"] }));
  await assert.rejects(planned(own, describedGpus("1xH200")), {
    message:
      "Cannot plan engine 8b on port 8000: port 8000 is given to another engine, or to the router; or let free " +
      "ports be found with --base-port 9000",
  });
});

test("Plans that cannot be say what is missing and what would fit", async () => {
  const fails = (config: JsonObject | string, gpus: string, message: string) =>
    assert.rejects(planned(configOf(config), gpus.endsWith(".txt") ? recorded(gpus) : describedGpus(gpus)), {
      message,
    });
  await fails(
    "launch-1-gpu",
    "1xA100",
    "Cannot place 8b: it needs 21.2 GiB of one GPU (weights 16.3, cache for 8192 tokens 1.1, the rest for computing), " +
      "and at most 7.3 GiB are left on one; what would fit: weights in FP8 instead of 16 bits; or 1 more GPU like " +
      "NVIDIA A100-SXM4-80GB",
  );
  await fails(
    oneModel({ engine: "sglang-pd" }),
    "1xRTX4090",
    "Cannot place 8b-decode: it needs 20.1 GiB of one GPU (weights 15.3, cache for 8192 tokens 1.1, the rest for " +
      "computing), and at most 2.4 GiB are left on one; what would fit: one server for each model instead of pairs " +
      "(an engine without -pd); or 1 more GPU like NVIDIA GeForce RTX 4090",
  );
  await fails(
    oneModel({ engine: "vllm", launch: { gpus: [0, 2] } }),
    "h200x6_busy.txt",
    "Cannot place 8b: none of the GPUs 0, 2 is free (GPU 0 is in use by others, 134.0 of 140.4 GiB, GPU 2 is in use " +
      "by others, 59.6 of 140.4 GiB, GPU 5 is in use by others, 9.1 of 140.4 GiB); nothing near it fits; serve " +
      "smaller models, or use more hosts",
  );
  await fails(
    oneModel({ engine: "vllm", launch: { tensor_parallel: 4 } }),
    "2xH200",
    "Cannot place 8b: it is divided among 4 GPUs, and 2 are free; what would fit: 2 more GPUs like NVIDIA H200",
  );
  await fails(
    oneModel({ engine: "vllm", launch: { memory_fraction: 0.1 } }),
    "1xH200",
    "Cannot place 8b: launch.memory_fraction 0.1 leaves a cache for 0 tokens, less than one request of 1024: give a " +
      "larger fraction, or leave it out",
  );
  await fails(
    oneModel({ engine: "vllm", launch: { nodes: 2 } }),
    "1xH200",
    'Cannot plan model "8b" on one host: its launch.nodes is 2: write files for several hosts with --emit kubernetes ' +
      "or --emit slurm",
  );
  await fails(
    oneModel({ engine: "openai" }),
    "1xH200",
    'Cannot plan model "8b": its engine is "openai" and it has no workers: give its workers, or an engine that can be ' +
      "started (vllm, sglang)",
  );
});
