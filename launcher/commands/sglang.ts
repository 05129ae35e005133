import { argvOf, type CommandInput, visibleGpus } from "./command_input.ts";
import type { EngineCommand } from "./engine_command.ts";
import { isAtLeast } from "../host/versions.ts";

/** Port at which the ranks of an engine that spans hosts find each other. */
export const SGLANG_RENDEZVOUS_PORT = 5_000;

/** The command of an SGLang server. */
export function sglangCommand(spec: CommandInput): EngineCommand {
  const { placement, version } = spec;
  const transfer = spec.role === "whole" ? undefined : transferOf(spec);
  const lean = placement !== undefined && placement.beside.length > 0;
  const parts: (string | readonly string[])[] = [
    spec.command ?? ["python3", "-m", "sglang.launch_server"],
    ["--model-path", spec.weights],
    spec.model === spec.weights ? [] : ["--served-model-name", spec.model],
    ["--host", spec.host, "--port", String(spec.port)],
    spec.dtype === undefined ? [] : ["--dtype", spec.dtype],
    spec.contextTokens === undefined ? [] : ["--context-length", String(spec.contextTokens)],
    placement === undefined || placement.ranks === 1 ? [] : ["--tp-size", String(placement.ranks)],
    spec.memoryFraction === undefined ? [] : ["--mem-fraction-static", String(spec.memoryFraction)],
    // Beside others the fraction is one of little free memory; where more is free, this is the limit.
    placement !== undefined && lean ? ["--max-total-tokens", String(placement.kvTokens)] : [],
    placement !== undefined && isLeanReserve(placement.reserve)
      ? [
        "--chunked-prefill-size",
        String(placement.reserve.stepTokens),
        "--cuda-graph-max-bs",
        String(placement.reserve.sequences),
      ]
      : [],
    spec.kvCacheType === "fp8" ? ["--kv-cache-dtype", "fp8_e4m3"] : [],
    ["--enable-metrics", "--enable-cache-report"],
    spec.device === "cpu" ? cpuOptions(spec) : [],
    spec.role === "whole" ? [] : ["--disaggregation-mode", spec.role],
    transfer === undefined ? [] : ["--disaggregation-transfer-backend", transfer.backend],
    spec.role === "prefill" && spec.bootstrapPort !== undefined
      ? ["--disaggregation-bootstrap-port", String(spec.bootstrapPort)]
      : [],
    // Its default keeps retracted requests in page-locked memory, which needs a GPU.
    spec.role === "decode" && spec.device === "cpu" && isAtLeast(version, "0.5.18")
      ? ["--disaggregation-decode-retraction-backup", "cpu_tensor"]
      : [],
    spec.extraArgs,
  ];
  const env = {
    ...visibleGpus(spec),
    ...(spec.device === "cpu" ? { SGLANG_USE_CPU_ENGINE: "1" } : {}),
    ...transfer?.env,
    ...spec.env,
  };
  return { argv: argvOf(parts), env };
}

/** True for the small steps of an engine that leaves room for others; otherwise SGLang chooses by itself. */
function isLeanReserve(reserve: { readonly sequences: number; readonly stepTokens: number }): boolean {
  return reserve.sequences === 64 && reserve.stepTokens === 2_048;
}

function cpuOptions(spec: CommandInput): string[] {
  return [
    ...["--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"],
    ...["--disable-cuda-graph", "--mem-fraction-static", "0.05", "--max-total-tokens", "65536"],
    // An idle scheduler takes a core; in 0.5.10 the cure makes each request of a pair a second longer.
    ...(isAtLeast(spec.version, "0.5.18") ? ["--sleep-on-idle"] : []),
  ];
}

/** How keys and values travel from prefill to decode. */
export interface Transfer {
  readonly backend: string;
  readonly env: Readonly<Record<string, string>>;
  /** One sentence. */
  readonly reason: string;
}

/**
 * Mooncake over RDMA, over NVLink within a host (0.5.18 and later), or over TCP, by what the host has; NIXL where only
 * that is installed.
 */
export function transferOf(spec: CommandInput): Transfer {
  const { installed, version } = spec;
  if (installed.mooncake === undefined && installed.nixl !== undefined) {
    return { backend: "nixl", env: {}, reason: "the cache travels with NIXL: Mooncake is not installed" };
  }
  if (installed.rdma) {
    return { backend: "mooncake", env: {}, reason: "the cache travels with Mooncake over RDMA" };
  }
  if (spec.device === "gpu" && spec.linkedPair && isAtLeast(version, "0.5.18")) {
    return {
      backend: "mooncake",
      env: { SGLANG_MOONCAKE_CUSTOM_MEM_POOL: "INTRA_NODE_NVLINK", MC_INTRANODE_NVLINK: "true" },
      reason: "the cache travels with Mooncake over NVLink, within the host",
    };
  }
  return {
    backend: isAtLeast(version, "0.5.13") ? "mooncake_tcp" : "mooncake",
    env: { MC_FORCE_TCP: "1" },
    reason:
      "the cache travels with Mooncake over TCP: there is no RDMA device, and no NVLink between the two",
  };
}
