import { CanopyError } from "../../base/errors.ts";
import {
  argvOf,
  type EngineCommand,
  type EngineSettings,
  type NodeRank,
  visibleGpus,
} from "./engine_command.ts";
import { isAtLeast } from "./versions.ts";

/** The command of a vLLM server. */
export function vllmCommand(settings: EngineSettings): EngineCommand {
  const { placement } = settings;
  const command = settings.command ?? ["vllm", "serve"];
  const parts: (string | readonly string[])[] = [
    command,
    // `vllm serve` takes the model as its argument, the module behind it as an option.
    command.at(-1) === "serve" ? [settings.weights] : ["--model", settings.weights],
    settings.model === settings.weights ? [] : ["--served-model-name", settings.model],
    ["--host", settings.host, "--port", String(settings.port)],
    settings.dtype === undefined ? [] : ["--dtype", settings.dtype],
    settings.contextTokens === undefined ? [] : ["--max-model-len", String(settings.contextTokens)],
    placement === undefined || placement.ranks === 1
      ? []
      : ["--tensor-parallel-size", String(placement.ranks)],
    settings.memoryFraction === undefined
      ? []
      : ["--gpu-memory-utilization", String(settings.memoryFraction)],
    placement?.reserve.kind === "lean"
      ? [
        "--max-num-batched-tokens",
        String(placement.reserve.stepTokens),
        "--max-num-seqs",
        String(placement.reserve.sequences),
      ]
      : [],
    settings.kvCacheType === "fp8" ? ["--kv-cache-dtype", "fp8"] : [],
    ["--enable-prompt-tokens-details"],
    settings.role === "whole" ? [] : ["--kv-transfer-config", transferConfig(settings)],
    settings.extraArgs,
  ];
  const env = {
    ...visibleGpus(settings),
    ...(settings.device === "cpu" && { VLLM_CPU_KVCACHE_SPACE: "1", VLLM_ENABLE_V1_MULTIPROCESSING: "0" }),
    ...(settings.role !== "whole" && settings.bootstrapPort !== undefined && {
      VLLM_NIXL_SIDE_CHANNEL_HOST: settings.host,
      VLLM_NIXL_SIDE_CHANNEL_PORT: String(settings.bootstrapPort),
    }),
    ...settings.env,
  };
  return { argv: argvOf(parts), env };
}

/** NixlConnector's settings. Versions before 0.12 know no roles. */
function transferConfig(settings: EngineSettings): string {
  const role = isAtLeast(settings.version, "0.12")
    ? settings.role === "prefill" ? "kv_producer" : "kv_consumer"
    : "kv_both";
  return JSON.stringify({
    kv_connector: "NixlConnector",
    kv_role: role,
    kv_buffer_device: settings.device === "cpu" ? "cpu" : undefined,
  });
}

/** Options of one host of an engine that spans several. Throws 400 `vllm_needs_ray` before 0.12. */
export function vllmNodeOptions(version: string, nodes: number, { rank, leader }: NodeRank): string[] {
  if (!isAtLeast(version, "0.12")) {
    throw new CanopyError(
      `vLLM ${version} spans hosts only with Ray: use vLLM 0.12 or later, or SGLang`,
      { code: "vllm_needs_ray", status: 400 },
    );
  }
  return ["--nnodes", String(nodes), "--node-rank", rank, "--master-addr", leader];
}
