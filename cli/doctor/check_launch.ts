import { existsSync, readdirSync, readFileSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import type { Config } from "../../cfgs/schema/config.ts";
import type { DoctorFinding } from "./check_workers.ts";
import type { Io } from "../kit/io.ts";
import { isAtLeast, NEWEST } from "../../launcher/commands/versions.ts";
import { findInstalled, type Installed } from "../../launcher/host/installed.ts";
import { type RunTool, runTool } from "../../launcher/host/run_tool.ts";
import { stateFolder } from "../../launcher/supervise/launch_state.ts";
import { findState, isRunning, leftoverGroups } from "../../launcher/supervise/leftovers.ts";
import { systemProcessTable } from "../../launcher/supervise/process_table.ts";
import { hubHome } from "../../ml/hub/environment.ts";

/** The oldest versions that Canopy's own tests have seen. */
const OLDEST = { sglang: "0.5.3", vllm: "0.9.0" } as const;
const PRODUCTS = { sglang: "SGLang", vllm: "vLLM" } as const;
/** Below this not even a model of 8 billion parameters can be downloaded. */
const LOW_DISK_GIB = 20;
/** vLLM's and NCCL's ranks exchange data there; containers have 64 MiB unless told otherwise. */
const LOW_SHARED_MEMORY_GIB = 1;

/** Checks what `canopy launch` needs on this host: driver, engines, disk, leftovers of earlier launches. */
export async function checkLaunch(
  config: Config | undefined,
  io: Io,
  run: RunTool = runTool,
): Promise<DoctorFinding[]> {
  return [
    ...checkDriver(),
    ...await checkInstalled(config, io, run),
    ...checkDisk(io),
    ...checkLeftovers(io),
  ];
}

/** A GPU that is plugged in and has no driver is seen by the system, not by the vendor's tool. */
function checkDriver(): DoctorFinding[] {
  const vendors = namesIn("/sys/bus/pci/devices").map((device) => ({
    vendor: textOf(`/sys/bus/pci/devices/${device}/vendor`),
    kind: textOf(`/sys/bus/pci/devices/${device}/class`),
  }));
  const nvidia = vendors.some(({ vendor, kind }) => vendor === "0x10de" && /^0x030[02]/.test(kind));
  if (!nvidia || existsSync("/proc/driver/nvidia/version")) return [];
  const text = "there is an NVIDIA GPU and no driver: install the driver, and restart the host";
  return [{ level: "problem", subject: "GPU driver", text }];
}

async function checkInstalled(config: Config | undefined, io: Io, run: RunTool): Promise<DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  const wanted = new Set(Object.values(config?.models ?? {}).map(({ engine }) => engine.replace("-pd", "")));
  const launch = config?.launch;
  for (const family of ["vllm", "sglang"] as const) {
    const settings = launch?.[family];
    if (settings?.image !== undefined) {
      findings.push({
        level: "ok",
        subject: PRODUCTS[family],
        text: `runs in the container image ${settings.image}`,
      });
      continue;
    }
    const installed = await findInstalled(run, io.stop, settings?.command);
    findings.push(...engineFindings(family, installed, launch !== undefined && wanted.has(family)));
    const pairs = Object.values(config?.models ?? {}).some(({ engine }) => engine === `${family}-pd`);
    if (installed[family] !== undefined && pairs) findings.push(...transferFindings(family, installed));
  }
  return findings;
}

function engineFindings(family: "vllm" | "sglang", installed: Installed, needed: boolean): DoctorFinding[] {
  const subject = PRODUCTS[family];
  const version = installed[family];
  if (version === undefined) {
    const text =
      `not installed for python3: canopy launch cannot start it; install it (pip install ${family}), name ` +
      `its command in launch.${family}.command, or its container in launch.${family}.image`;
    return needed ? [{ level: "problem", subject, text }] : [];
  }
  if (!isAtLeast(version, OLDEST[family])) {
    const text = `${version} is older than ${OLDEST[family]}: options and answers differ; upgrade it to ${
      NEWEST[family]
    }`;
    return [{ level: "warning", subject, text }];
  }
  return [{ level: "ok", subject, text: `${version} is installed` }];
}

function transferFindings(family: "vllm" | "sglang", installed: Installed): DoctorFinding[] {
  const subject = `${PRODUCTS[family]}'s pairs`;
  if (family === "vllm") {
    if (installed.nixl !== undefined) {
      return [{ level: "ok", subject, text: `NIXL ${installed.nixl} moves the cache` }];
    }
    return [{ level: "problem", subject, text: "NIXL is missing, which moves the cache: pip install nixl" }];
  }
  const backend = installed.mooncake === undefined
    ? installed.nixl === undefined ? undefined : `NIXL ${installed.nixl}`
    : `Mooncake ${installed.mooncake}`;
  if (backend === undefined) {
    const text =
      "Mooncake and NIXL are missing, one of which moves the cache: pip install mooncake-transfer-engine";
    return [{ level: "problem", subject, text }];
  }
  const way = installed.rdma ? "RDMA" : "TCP or NVLink: there is no RDMA device";
  return [{ level: "ok", subject, text: `${backend} moves the cache over ${way}` }];
}

function checkDisk(io: Io): DoctorFinding[] {
  const findings: DoctorFinding[] = [];
  const cache = hubHome(io.env);
  const free = freeGib(cache);
  if (free !== undefined && free < LOW_DISK_GIB) {
    const text =
      `${free.toFixed(1)} GiB are free in ${cache}, too little for the weights of most models: free some ` +
      "space, or set HF_HOME to a folder on a larger disk";
    findings.push({ level: "warning", subject: "disk", text });
  }
  const shared = existsSync("/dev/shm") ? freeGib("/dev/shm") : undefined;
  if (shared !== undefined && shared < LOW_SHARED_MEMORY_GIB) {
    const text =
      `${
        (shared * 1024).toFixed(0)
      } MiB are free in /dev/shm, too little for engines on several GPUs: give ` +
      "the container --shm-size 16g, or --ipc=host";
    findings.push({ level: "warning", subject: "shared memory", text });
  }
  return findings;
}

function checkLeftovers(io: Io): DoctorFinding[] {
  const table = systemProcessTable();
  const folder = stateFolder(io.env, { folder: undefined, name: "default" });
  const found = findState(folder, table);
  if (found === undefined) return [];
  const { state } = found;
  if (found.lost && isRunning(state, table)) {
    const text =
      `process ${state.pid} runs a launch whose state in ${folder} is lost: end it with canopy stop`;
    return [{ level: "warning", subject: "launch", text }];
  }
  if (isRunning(state, table)) {
    const text = `${state.source} is ${state.phase}${
      state.url === undefined ? "" : ` on ${state.url}`
    } (canopy status)`;
    return [{ level: "ok", subject: "launch", text }];
  }
  const groups = leftoverGroups(state, table);
  if (groups.length === 0) return [];
  const text = `a launch was killed and has left process groups ${
    groups.join(", ")
  }: end them with canopy stop`;
  return [{ level: "warning", subject: "launch", text }];
}

/** Free space at a folder, or at the nearest one above that exists. */
function freeGib(folder: string): number | undefined {
  let at = folder;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  try {
    const { bavail, bsize } = statfsSync(at);
    return bavail * bsize / 2 ** 30;
  } catch {
    return undefined;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}
