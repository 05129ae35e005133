import type { Installed } from "../host/installed.ts";
import type { GpuPlacement } from "../place/place_types.ts";
import type { EngineChoice } from "../place/targets.ts";

/** All that decides an engine's command line. */
export interface CommandInput {
  readonly name: string;
  readonly family: EngineChoice;
  readonly role: "whole" | "prefill" | "decode";
  /** What clients call the model. */
  readonly model: string;
  /** Hub id or folder of its weights. */
  readonly weights: string;
  readonly host: string;
  readonly port: number;
  /** SGLang: port of the bootstrap registry (prefill); vLLM: port of the side channel (both halves). */
  readonly bootstrapPort: number | undefined;
  readonly version: string;
  readonly device: "gpu" | "cpu";
  /** Undefined without GPUs. */
  readonly placement: GpuPlacement | undefined;
  /** In the family's own sense. */
  readonly memoryFraction: number | undefined;
  readonly contextTokens: number | undefined;
  readonly kvCacheType: "auto" | "fp8";
  /** Type of weights, such as bfloat16; undefined: the model's own. */
  readonly dtype: string | undefined;
  readonly installed: Installed;
  /** True when prefill and decode run on GPUs that NVLink joins. */
  readonly linkedPair: boolean;
  /** Starts the engine; undefined: the usual way. */
  readonly command: readonly string[] | undefined;
  /** Passed on after all other options. */
  readonly extraArgs: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The variable that shows an engine its GPUs, by vendor. */
export function visibleGpus(spec: CommandInput): Record<string, string> {
  if (spec.device === "cpu") return { CUDA_VISIBLE_DEVICES: "" };
  const gpus = spec.placement?.gpus ?? [];
  if (gpus.length === 0) return {};
  const ids = gpus.map((gpu) => gpu.id).join(",");
  if (gpus[0]?.vendor === "amd") return { HIP_VISIBLE_DEVICES: ids };
  // Indexes are those of nvidia-smi; CUDA's own order puts the fastest first.
  return { CUDA_DEVICE_ORDER: "PCI_BUS_ID", CUDA_VISIBLE_DEVICES: ids };
}

/** A command from its parts. */
export function argvOf(parts: readonly (string | readonly string[])[]): [string, ...string[]] {
  const [program = "", ...rest] = parts.flat();
  return [program, ...rest];
}
