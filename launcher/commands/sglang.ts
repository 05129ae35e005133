import {
  argvOf,
  type EngineCommand,
  type EngineSettings,
  type NodeRank,
  visibleGpus,
} from "./engine_command.ts";
import { isAtLeast } from "./versions.ts";

/** Port at which the ranks of an engine that spans hosts find each other. */
const RENDEZVOUS_PORT = 5_000;

/** The command of an SGLang server. */
export function sglangCommand(settings: EngineSettings): EngineCommand {
  const { placement, version } = settings;
  const transfer = settings.role === "whole" ? undefined : transferOf(settings);
  const parts: (string | readonly string[])[] = [
    settings.command ?? ["python3", "-m", "sglang.launch_server"],
    ["--model-path", settings.weights],
    settings.model === settings.weights ? [] : ["--served-model-name", settings.model],
    ["--host", settings.host, "--port", String(settings.port)],
    settings.dtype === undefined ? [] : ["--dtype", settings.dtype],
    settings.contextTokens === undefined ? [] : ["--context-length", String(settings.contextTokens)],
    placement === undefined || placement.ranks === 1 ? [] : ["--tp-size", String(placement.ranks)],
    settings.memoryFraction === undefined ? [] : ["--mem-fraction-static", String(settings.memoryFraction)],
    // Beside others the fraction is one of little free memory; where more is free, this is the limit.
    placement !== undefined && placement.beside.length > 0
      ? ["--max-total-tokens", String(placement.kvTokens)]
      : [],
    placement?.reserve.kind === "lean"
      ? [
        "--chunked-prefill-size",
        String(placement.reserve.stepTokens),
        "--cuda-graph-max-bs",
        String(placement.reserve.sequences),
      ]
      : [],
    settings.kvCacheType === "fp8" ? ["--kv-cache-dtype", "fp8_e4m3"] : [],
    ["--enable-metrics", "--enable-cache-report"],
    settings.device === "cpu" ? cpuOptions(settings) : [],
    settings.role === "whole" ? [] : ["--disaggregation-mode", settings.role],
    transfer === undefined ? [] : ["--disaggregation-transfer-backend", transfer.backend],
    settings.role === "prefill" && settings.bootstrapPort !== undefined
      ? ["--disaggregation-bootstrap-port", String(settings.bootstrapPort)]
      : [],
    // Its default keeps retracted requests in page-locked memory, which needs a GPU.
    settings.role === "decode" && settings.device === "cpu" && isAtLeast(version, "0.5.18")
      ? ["--disaggregation-decode-retraction-backup", "cpu_tensor"]
      : [],
    settings.extraArgs,
  ];
  const env = {
    ...visibleGpus(settings),
    ...(settings.device === "cpu" && { SGLANG_USE_CPU_ENGINE: "1" }),
    ...transfer?.env,
    ...settings.env,
  };
  return { argv: argvOf(parts), env };
}

function cpuOptions(settings: EngineSettings): string[] {
  return [
    ...["--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"],
    ...["--disable-cuda-graph", "--mem-fraction-static", "0.05", "--max-total-tokens", "65536"],
    // An idle scheduler takes a core; in 0.5.10 the cure makes each request of a pair a second longer.
    ...(isAtLeast(settings.version, "0.5.18") ? ["--sleep-on-idle"] : []),
  ];
}

/** Way of keys and values from prefill to decode. */
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
export function transferOf(settings: EngineSettings): Transfer {
  const { installed, version } = settings;
  if (installed.mooncake === undefined && installed.nixl !== undefined) {
    return { backend: "nixl", env: {}, reason: "the cache travels with NIXL: Mooncake is not installed" };
  }
  if (installed.rdma) {
    return { backend: "mooncake", env: {}, reason: "the cache travels with Mooncake over RDMA" };
  }
  if (settings.device === "gpu" && settings.linkedPair && isAtLeast(version, "0.5.18")) {
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

/** Options of one host of an engine that spans several. */
export function sglangNodeOptions(nodes: number, { rank, leader }: NodeRank): string[] {
  return [
    ...["--nnodes", String(nodes), "--node-rank", rank],
    ...["--dist-init-addr", `${leader}:${RENDEZVOUS_PORT}`],
  ];
}
