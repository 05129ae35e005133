import { CanopyError } from "../../base/errors.ts";
import { argvOf, type CommandInput, visibleGpus } from "./command_input.ts";
import type { EngineCommand } from "./engine_command.ts";
import { isAtLeast } from "../host/versions.ts";

/** The command of a vLLM server. */
export function vllmCommand(spec: CommandInput): EngineCommand {
  const { placement } = spec;
  const command = spec.command ?? ["vllm", "serve"];
  const lean = placement !== undefined && placement.reserve.sequences === 64;
  const parts: (string | readonly string[])[] = [
    command,
    // `vllm serve` takes the model as its argument, the module behind it as an option.
    command.at(-1) === "serve" ? [spec.weights] : ["--model", spec.weights],
    spec.model === spec.weights ? [] : ["--served-model-name", spec.model],
    ["--host", spec.host, "--port", String(spec.port)],
    spec.dtype === undefined ? [] : ["--dtype", spec.dtype],
    spec.contextTokens === undefined ? [] : ["--max-model-len", String(spec.contextTokens)],
    placement === undefined || placement.ranks === 1
      ? []
      : ["--tensor-parallel-size", String(placement.ranks)],
    spec.memoryFraction === undefined ? [] : ["--gpu-memory-utilization", String(spec.memoryFraction)],
    lean
      ? [
        "--max-num-batched-tokens",
        String(placement.reserve.stepTokens),
        "--max-num-seqs",
        String(placement.reserve.sequences),
      ]
      : [],
    spec.kvCacheType === "fp8" ? ["--kv-cache-dtype", "fp8"] : [],
    ["--enable-prompt-tokens-details"],
    spec.role === "whole" ? [] : ["--kv-transfer-config", transferConfig(spec)],
    spec.extraArgs,
  ];
  const env = {
    ...visibleGpus(spec),
    ...(spec.device === "cpu" ? { VLLM_CPU_KVCACHE_SPACE: "1", VLLM_ENABLE_V1_MULTIPROCESSING: "0" } : {}),
    ...(spec.role === "whole" || spec.bootstrapPort === undefined ? {} : {
      VLLM_NIXL_SIDE_CHANNEL_HOST: spec.host,
      VLLM_NIXL_SIDE_CHANNEL_PORT: String(spec.bootstrapPort),
    }),
    ...spec.env,
  };
  return { argv: argvOf(parts), env };
}

/** NixlConnector's settings. Versions before 0.12 know no roles. */
function transferConfig(spec: CommandInput): string {
  const role = isAtLeast(spec.version, "0.12")
    ? spec.role === "prefill" ? "kv_producer" : "kv_consumer"
    : "kv_both";
  return JSON.stringify({
    kv_connector: "NixlConnector",
    kv_role: role,
    ...(spec.device === "cpu" ? { kv_buffer_device: "cpu" } : {}),
  });
}

/** Options of one host of an engine that spans several. Throws 400 `vllm_needs_ray` before 0.12. */
export function vllmNodeOptions(version: string, nodes: number, rank: string, leader: string): string[] {
  if (!isAtLeast(version, "0.12")) {
    throw new CanopyError(
      `vLLM ${version} spans hosts only with Ray: use vLLM 0.12 or later, or SGLang`,
      { code: "vllm_needs_ray", status: 400 },
    );
  }
  return ["--nnodes", String(nodes), "--node-rank", rank, "--master-addr", leader];
}
