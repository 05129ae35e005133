import { CanopyError } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest.ts";
import { type Gpu, type HostGpus, linkOf } from "./gpu.ts";
import { parseAmdSmi, parseRocm } from "./gpus_amd.ts";
import { parseNvidia } from "./gpus_nvidia.ts";

interface KnownGpu {
  readonly name: string;
  /** As the vendor's tool shows it. */
  readonly totalMiB: number;
  readonly vendor: "nvidia" | "amd";
  readonly computeCapability: string | undefined;
  /** Usually sold with direct links among all GPUs of a host. */
  readonly linked: boolean;
}

const nvidiaGpu = (name: string, totalMiB: number, computeCapability?: string, linked = false): KnownGpu => ({
  name,
  totalMiB,
  vendor: "nvidia",
  computeCapability,
  linked,
});

/** GPUs by the names that people use. */
const KNOWN: Readonly<Record<string, KnownGpu>> = {
  "B200": nvidiaGpu("NVIDIA B200", 183_359, "10.0", true),
  "H200": nvidiaGpu("NVIDIA H200", 143_771, "9.0", true),
  "H100": nvidiaGpu("NVIDIA H100 80GB HBM3", 81_559, "9.0", true),
  "H20": nvidiaGpu("NVIDIA H20", 97_871, "9.0", true),
  "A100": nvidiaGpu("NVIDIA A100-SXM4-80GB", 81_920, "8.0", true),
  "A100-40GB": nvidiaGpu("NVIDIA A100-SXM4-40GB", 40_960, "8.0", true),
  "V100": nvidiaGpu("Tesla V100-SXM2-32GB", 32_768, "7.0", true),
  "L40S": nvidiaGpu("NVIDIA L40S", 46_068, "8.9"),
  "L4": nvidiaGpu("NVIDIA L4", 23_034, "8.9"),
  "A10": nvidiaGpu("NVIDIA A10", 23_028, "8.6"),
  "A6000": nvidiaGpu("NVIDIA RTX A6000", 49_140, "8.6"),
  "RTX6000-ADA": nvidiaGpu("NVIDIA RTX 6000 Ada Generation", 49_140, "8.9"),
  "RTX5090": nvidiaGpu("NVIDIA GeForce RTX 5090", 32_607, "12.0"),
  "RTX4090": nvidiaGpu("NVIDIA GeForce RTX 4090", 24_564, "8.9"),
  "RTX3090": nvidiaGpu("NVIDIA GeForce RTX 3090", 24_576, "8.6"),
  "T4": nvidiaGpu("Tesla T4", 15_360, "7.5"),
  "MI300X": {
    name: "AMD Instinct MI300X",
    totalMiB: 196_592,
    vendor: "amd",
    computeCapability: "gfx942",
    linked: true,
  },
};

/** Names that `--gpus` knows. */
export const knownGpuNames: readonly string[] = Object.keys(KNOWN);

const MAX_GPUS = 64;

/**
 * The GPUs that a text such as `6xH200`, `2xA100-40GB,1xL4` or `4x48GB` stands for, all of them idle.
 * Throws 400 `bad_gpus` for any other text.
 */
export function describedGpus(text: string): HostGpus {
  const gpus: Gpu[] = [];
  const links = new Set<string>();
  for (const part of text.split(",")) {
    const match = /^\s*(?:(\d{1,3})\s*[x×*]\s*)?([A-Za-z0-9][\w.-]*)\s*$/i.exec(part);
    const count = Number(match?.[1] ?? 1);
    const name = (match?.[2] ?? "").toUpperCase().replace(/_/g, "-");
    const known = Object.hasOwn(KNOWN, name) ? KNOWN[name] : ofSize(name);
    if (known === undefined || count < 1 || gpus.length + count > MAX_GPUS) {
      throw badGpus(text, known === undefined ? didYouMean(name, knownGpuNames) : "");
    }
    const first = gpus.length;
    for (let n = 0; n < count; n++) {
      const index = first + n;
      const { linked: _, ...kind } = known;
      gpus.push({
        id: String(index),
        index,
        uuid: `GPU-${index}`,
        ...kind,
        usedMiB: 0,
        numaNode: undefined,
      });
      if (known.linked) { for (let other = first; other < index; other++) links.add(linkOf(other, index)); }
    }
  }
  return { gpus, driver: undefined, linked: (a, b) => links.has(linkOf(a, b)), source: `--gpus ${text}` };
}

/** `48GB`: a GPU of which only the size is known; 4 % are lost to its own bookkeeping. */
function ofSize(name: string): KnownGpu | undefined {
  const size = Number(/^(\d{1,4})G(?:I?B)?$/.exec(name)?.[1] ?? 0);
  return size === 0 ? undefined : nvidiaGpu(`${size} GB GPU`, Math.floor(size * 1024 * 0.96));
}

/**
 * The GPUs of another host, from what was recorded there: the output of `NVIDIA_COMMANDS`, or of rocm-smi or
 * `amd-smi static` in JSON.
 * Throws 400 `bad_gpus` when no GPU is in it.
 */
export function recordedGpus(text: string, file: string): HostGpus {
  const nvidia = parseNvidia(text);
  const recorded = nvidia.gpus.length > 0 ? nvidia : parseRocm(text) ?? parseAmdSmi(text, "");
  if (recorded !== undefined) return { ...recorded, source: file };
  throw new CanopyError(
    `Option --gpus names the file ${file}, which lists no GPU: write into it what ` +
      `"nvidia-smi --query-gpu=index,uuid,name,memory.total,memory.used,compute_cap,driver_version,mig.mode.current ` +
      `--format=csv,noheader,nounits" prints there`,
    { code: "bad_gpus", status: 400 },
  );
}

function badGpus(text: string, hint: string): CanopyError {
  return new CanopyError(
    `Option --gpus must be like 6xH200, 2xA100-40GB,1xL4 or 4x48GB (at most ${MAX_GPUS} GPUs), or a file with ` +
      `the output of nvidia-smi: current value is "${text}"${hint}`,
    { code: "bad_gpus", status: 400 },
  );
}
