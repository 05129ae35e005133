import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { checkLaunch } from "../../../cli/doctor/check_launch.ts";
import type { RunTool } from "../../../launcher/host/run_tool.ts";
import { writeState } from "../../../launcher/supervise/launch_state.ts";
import { systemProcessTable } from "../../../launcher/supervise/process_table.ts";
import { fakeIo } from "../fake_io.ts";

const folder = mkdtempSync(join(tmpdir(), "canopy-doctor-"));
const io = fakeIo({ env: { CANOPY_STATE_DIR: folder, HF_HOME: tmpdir() } });

/** A host whose Python has these packages; undefined: it has no Python. */
function host(packages: Record<string, string> | undefined): RunTool {
  return () =>
    Promise.resolve(
      packages === undefined ? undefined : { code: 0, stdout: JSON.stringify(packages), stderr: "" },
    );
}

/** Findings about engines, as lines; those about this machine's disk and GPUs are left out. */
async function found(
  models: Record<string, unknown>,
  packages: Record<string, string> | undefined,
  launch = {},
) {
  const config = configSchema.parse({ models, launch });
  const findings = await checkLaunch(config, io, host(packages));
  return findings.filter(({ subject }) => /vLLM|SGLang|launch/.test(subject))
    .map(({ level, subject, text }) => `${level} ${subject}: ${text}`);
}

const m = (engine: string) => ({ m: { model: "org/m", engine } });

test("the doctor says which engines are installed, and what to do where one is missing or old", async () => {
  assert.deepEqual(await found(m("vllm"), { vllm: "0.32.0", sglang: "0.5.23" }), [
    "ok vLLM: 0.32.0 is installed",
    "ok SGLang: 0.5.23 is installed",
  ]);
  assert.deepEqual(await found(m("sglang"), undefined), [
    "problem SGLang: not installed for python3: canopy launch cannot start it; install it (pip install sglang), name " +
    "its command in launch.sglang.command, or its container in launch.sglang.image",
  ]);
  assert.deepEqual(await found(m("vllm"), { vllm: "0.6.3" }), [
    "warning vLLM: 0.6.3 is older than 0.9.0: options and answers differ; upgrade it to 0.32.0",
  ]);
  assert.deepEqual(await found(m("vllm"), undefined, { vllm: { image: "vllm/vllm-openai:v0.32.0" } }), [
    "ok vLLM: runs in the container image vllm/vllm-openai:v0.32.0",
  ]);
});

test("the doctor says what moves the cache of pairs, or what is missing", async () => {
  assert.deepEqual(await found(m("vllm-pd"), { vllm: "0.32.0" }), [
    "ok vLLM: 0.32.0 is installed",
    "problem vLLM's pairs: NIXL is missing, which moves the cache: pip install nixl",
  ]);
  const [, transfer = ""] = await found(m("sglang-pd"), {
    sglang: "0.5.18",
    "mooncake-transfer-engine": "0.3.10",
  });
  assert.match(transfer, /^ok SGLang's pairs: Mooncake 0\.3\.10 moves the cache over (RDMA|TCP or NVLink)/);
});

test("the doctor tells of a launch that runs, and of what a killed one has left nothing", async () => {
  const table = systemProcessTable();
  const { pid } = process;
  const state = {
    id: "x",
    pid,
    startedAtUnixMs: 0,
    phase: "serving",
    source: "canopy.jsonc",
    engines: [],
  } as const;
  const startTime = table.startTime(pid);
  assert.ok(startTime !== undefined);
  try {
    writeState(join(folder, "default"), { ...state, startTime, url: "http://127.0.0.1:8000", engines: [] });
    assert.deepEqual(await found({}, undefined), [
      "ok launch: canopy.jsonc is serving on http://127.0.0.1:8000 (canopy status)",
    ]);
    writeState(join(folder, "default"), { ...state, startTime: "another", engines: [] });
    assert.deepEqual(await found({}, undefined), []);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
