import type { EngineFamily, EngineRole } from "../engine_kind.ts";
import type { Installed } from "../host/installed.ts";
import type { GpuPlacement } from "../place/memory_split.ts";

/** A process to start, without a shell. */
export interface EngineCommand {
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
}

/** Everything that decides the command line of a real engine. */
export interface EngineSettings {
  readonly family: EngineFamily;
  readonly role: EngineRole;
  /** Name that clients call the model by. */
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
  /** Share of GPU memory in the family's own sense, see `fractionOf`. */
  readonly memoryFraction: number | undefined;
  readonly contextTokens: number | undefined;
  readonly kvCacheType: "auto" | "fp8";
  /** Type of weights, such as bfloat16; undefined: the model's own. */
  readonly dtype: string | undefined;
  readonly installed: Installed;
  /** True when prefill and decode run on GPUs that NVLink joins. */
  readonly linkedPair: boolean;
  /** Program and first arguments that start the engine; undefined: the usual ones. */
  readonly command: readonly string[] | undefined;
  /** Passed on after all other options. */
  readonly extraArgs: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** One host of an engine that spans several, as a shell or Kubernetes fills it in. */
export interface NodeRank {
  /** Number of the host; the leader's is 0. */
  readonly rank: string;
  /** Address of the leader. */
  readonly leader: string;
}

/** Environment variables that show an engine its GPUs, by vendor. */
export function visibleGpus({ device, placement }: EngineSettings): Record<string, string> {
  if (device === "cpu") return { CUDA_VISIBLE_DEVICES: "" };
  const gpus = placement?.gpus ?? [];
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
