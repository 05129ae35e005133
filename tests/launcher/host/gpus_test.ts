import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { findGpus } from "../../../launcher/host/find_gpus.ts";
import { isBusy } from "../../../launcher/host/gpu.ts";
import { describedGpus, knownGpuNames, recordedGpus } from "../../../launcher/host/gpus_described.ts";
import type { RunTool } from "../../../launcher/host/run_tool.ts";
import { fixture, recorded } from "../planned.ts";

const { signal } = new AbortController();

/** A host with these tools; the text of nvidia-smi is that of a recording, whatever it is asked. */
function tools(outputs: Record<string, { stdout?: string; stderr?: string; code?: number }>): RunTool {
  return (command, args) => {
    // The recordings hold the answers to all questions.
    if (command === "nvidia-smi" && !args[0]?.startsWith("--query")) return Promise.resolve(undefined);
    const { stdout = "", stderr = "", code = 0 } = outputs[command] ?? {};
    return Promise.resolve(outputs[command] === undefined ? undefined : { stdout, stderr, code });
  };
}

test("Six H200 are read with memory, driver, NUMA nodes and links", () => {
  const host = recorded("h200x6.txt");
  assert.equal(host.driver, "570.133.20");
  assert.deepEqual(host.gpus.map((gpu) => [gpu.id, gpu.name, gpu.totalMiB, gpu.usedMiB, gpu.numaNode]), [
    ["0", "NVIDIA H200", 143_771, 4, 0],
    ["1", "NVIDIA H200", 143_771, 4, 0],
    ["2", "NVIDIA H200", 143_771, 4, 0],
    ["3", "NVIDIA H200", 143_771, 4, 1],
    ["4", "NVIDIA H200", 143_771, 4, 1],
    ["5", "NVIDIA H200", 143_771, 4, 1],
  ]);
  assert.equal(host.gpus[0]?.computeCapability, "9.0");
  assert.equal(host.linked(0, 5) && host.linked(5, 0), true);
  assert.equal(host.linked(0, 0), false);
});

test("GPUs on PCIe have no link, and one GPU has nobody to be linked with", () => {
  const host = recorded("a100x2.txt");
  assert.equal(host.linked(0, 1), false);
  assert.deepEqual(host.gpus.map((gpu) => gpu.numaNode), [0, 1]);
  assert.equal(recorded("h200x1.txt").gpus.length, 1);
});

test("A GPU in MIG mode is its slices, with the memory that the table shows, or at least 95 % of the profile's", () => {
  const host = recorded("a100_mig.txt");
  assert.deepEqual(host.gpus.map((gpu) => [gpu.id, gpu.name, gpu.totalMiB, gpu.usedMiB, isBusy(gpu)]), [
    ["MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20_096, 11, false],
    ["MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb", "NVIDIA A100-SXM4-40GB MIG 2g.10gb", 9_984, 9_012, true],
    ["MIG-1e852c4b-1b5c-5e1e-9e1b-2c1f5a7e0d11", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4_864, 0, false],
    ["1", "NVIDIA A100-SXM4-40GB", 40_960, 38, false],
  ]);
});

test("A GPU is busy when others use more than a twentieth of it", () => {
  assert.deepEqual(recorded("h200x6_busy.txt").gpus.map(isBusy), [true, false, true, false, false, true]);
});

test("AMD's cards are read from rocm-smi when there is no nvidia-smi", async () => {
  const host = await findGpus({
    run: tools({ "rocm-smi": { stdout: fixture("mi300x8.json") } }),
    env: {},
    signal,
  });
  assert.equal(host.source, "rocm-smi");
  assert.equal(host.gpus.length, 8);
  assert.equal(host.driver, "6.10.5");
  const [first] = host.gpus;
  assert.deepEqual([first?.vendor, first?.name, first?.totalMiB, first?.usedMiB], [
    "amd",
    "AMD Instinct MI300X",
    196_592,
    285,
  ]);
});

test("Where rocm-smi is gone, amd-smi is read, in the forms of ROCm 6 and 7", async () => {
  const cards = [0, 1].map((gpu) => ({
    gpu,
    asic: { market_name: "AMD Instinct MI300X", asic_serial: `0xA${gpu}`, target_graphics_version: "gfx942" },
    driver: { name: "amdgpu", version: "6.14.14" },
    vram: { type: "HBM3", size: { value: 196_592, unit: "MB" } },
    numa: { node: gpu, affinity: gpu },
  }));
  const used = [0, 1].map((gpu) => ({ gpu, mem_usage: { used_vram: { value: 285 + gpu, unit: "MB" } } }));
  for (const wrap of [(list: unknown) => list, (gpu_data: unknown) => ({ gpu_data })]) {
    const run: RunTool = (command, [what]) =>
      Promise.resolve(
        command !== "amd-smi" ? undefined : {
          code: 0,
          stdout: `WARNING: a group is missing\n${
            JSON.stringify(wrap(what === "static" ? cards : used), null, 4)
          }`,
          stderr: "",
        },
      );
    const host = await findGpus({ run, env: { HIP_VISIBLE_DEVICES: "1" }, signal });
    assert.deepEqual([host.source, host.driver], ["amd-smi, HIP_VISIBLE_DEVICES=1", "6.14.14"]);
    assert.deepEqual(host.gpus, [{
      id: "1",
      index: 1,
      uuid: "0xA1",
      name: "AMD Instinct MI300X",
      vendor: "amd",
      totalMiB: 196_592,
      usedMiB: 286,
      computeCapability: "gfx942",
      numaNode: 1,
    }]);
  }
  assert.equal(recordedGpus(JSON.stringify({ gpu_data: cards }), "cards.json").gpus.length, 2);
});

test("CUDA_VISIBLE_DEVICES limits the GPUs as CUDA reads it: by index or UUID, up to the first wrong one", async () => {
  const run = tools({ "nvidia-smi": { stdout: fixture("h200x6.txt") } });
  const visible = async (list: string) =>
    (await findGpus({ run, env: { CUDA_VISIBLE_DEVICES: list }, signal })).gpus.map((gpu) => gpu.id);
  assert.deepEqual(await visible("4,1"), ["4", "1"]);
  assert.deepEqual(await visible("GPU-66ba3138,0"), ["2", "0"]);
  assert.deepEqual(await visible("0,9,1"), ["0"]);
  await assert.rejects(visible(""), {
    message: 'Cannot plan: CUDA_VISIBLE_DEVICES is "", which hides all 6 GPUs: unset it, or name some',
  });
});

test("A driver that does not know compute_cap is asked without it", async () => {
  const old = fixture("a100x2.txt");
  const run: RunTool = (command, args) => {
    if (command !== "nvidia-smi") return Promise.resolve(undefined);
    if (!args[0]?.startsWith("--query")) return Promise.resolve({ code: 0, stdout: "", stderr: "" });
    if (args[0]?.includes("compute_cap")) {
      const stdout = 'Field "compute_cap" is not a valid field to query.\n';
      return Promise.resolve({ code: 2, stdout, stderr: "" });
    }
    return Promise.resolve({ code: 0, stdout: old.replaceAll(", 8.0,", ", P0,"), stderr: "" });
  };
  const host = await findGpus({ run, env: {}, signal });
  assert.deepEqual(host.gpus.map((gpu) => gpu.computeCapability), [undefined, undefined]);
});

test("A host without any tool, and one whose driver is not loaded, are told what to do", async () => {
  await assert.rejects(findGpus({ run: tools({}), env: {}, signal }), {
    message:
      "Cannot plan: this host shows no GPU (nvidia-smi, rocm-smi and amd-smi list none): install the GPU's " +
      "driver, plan for another host with --gpus 6xH200, or rehearse without GPUs with --engine sim",
  });
  const stdout =
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the " +
    "latest NVIDIA driver is installed and running.\n";
  await assert.rejects(findGpus({ run: tools({ "nvidia-smi": { code: 9, stdout } }), env: {}, signal }), {
    message:
      `Cannot plan: nvidia-smi does not reach the driver (it says "${stdout.trim()}"): install or load the ` +
      "NVIDIA driver, or plan for another host with --gpus 6xH200",
  });
});

test("--gpus names kinds and numbers, and says what it takes when it does not understand", () => {
  assert.deepEqual(describedGpus("2xA100-40GB,1xL4").gpus.map((gpu) => [gpu.id, gpu.totalMiB]), [
    ["0", 40_960],
    ["1", 40_960],
    ["2", 23_034],
  ]);
  assert.equal(describedGpus("h200").gpus.length, 1);
  assert.deepEqual(describedGpus("4x48GB").gpus.map((gpu) => gpu.totalMiB), [47_185, 47_185, 47_185, 47_185]);
  const nvlink = describedGpus("2xH200,1xL4");
  assert.deepEqual([nvlink.linked(0, 1), nvlink.linked(1, 2)], [true, false]);
  const bad = (text: string, hint: string) =>
    assert.throws(() => describedGpus(text), {
      message:
        "Option --gpus must be like 6xH200, 2xA100-40GB,1xL4 or 4x48GB (at most 64 GPUs), or a file with the " +
        `output of nvidia-smi: current value is "${text}"${hint}`,
    });
  const names = `; known names: ${knownGpuNames.join(", ")}`;
  bad("6xH201", `; did you mean "H200"?${names}`);
  bad("0xH200", "");
  bad("65xH200", "");
  bad("", names);
  bad("2xA100-24GB", "; A100 is known with 80 GB or 40 GB");
});

test("--gpus knows a GPU by its name with its size, and however its name is written", () => {
  const sizes = (text: string) => describedGpus(text).gpus.map((gpu) => gpu.totalMiB);
  assert.deepEqual(sizes("2xA100-80GB"), sizes("2xA100"));
  assert.deepEqual(sizes("1xH100-80GB,1xV100_32G,1xl40s-48gib"), sizes("1xH100,1xV100,1xL40S"));
  for (const name of ["RTX-4090", "rtx 4090", "4090", "GeForce-RTX-4090", "RTX4090-24GB"]) {
    assert.deepEqual(sizes(`1x${name}`), sizes("1xRTX4090"), name);
  }
  for (const name of ["L40", "A10G", "B300", "GH200", "GB200", "MI325X", "RTX-PRO-6000", "RTX A6000"]) {
    assert.equal(describedGpus(`2x${name}`).gpus.length, 2, name);
  }
  const listed = readFileSync(new URL("../../../docs/launcher.md", import.meta.url), "utf8").split(
    /[\s,.()]+/,
  );
  for (const name of knownGpuNames) {
    assert.equal(describedGpus(name).gpus.length, 1, name);
    assert(listed.includes(name), `docs/launcher.md does not list ${name}`);
  }
});
