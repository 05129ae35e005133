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

const amdGpu = (name: string, totalMiB: number, architecture: string): KnownGpu => ({
  name: `AMD Instinct ${name}`,
  totalMiB,
  vendor: "amd",
  computeCapability: architecture,
  linked: true,
});

/** GPUs by the names that people use, and the size they are sold with; of several sizes the usual one is first. */
const KNOWN: readonly (readonly [name: string, gb: number, gpu: KnownGpu])[] = [
  ["B300", 288, nvidiaGpu("NVIDIA B300 SXM6", 275_040, "10.3", true)],
  ["GB200", 192, nvidiaGpu("NVIDIA GB200", 189_471, "10.0", true)],
  ["B200", 192, nvidiaGpu("NVIDIA B200", 183_359, "10.0", true)],
  ["GH200", 96, nvidiaGpu("NVIDIA GH200 480GB", 97_871, "9.0")],
  ["GH200", 144, nvidiaGpu("NVIDIA GH200 144G HBM3e", 146_831, "9.0")],
  ["H200", 141, nvidiaGpu("NVIDIA H200", 143_771, "9.0", true)],
  ["H100", 80, nvidiaGpu("NVIDIA H100 80GB HBM3", 81_559, "9.0", true)],
  ["H100", 94, nvidiaGpu("NVIDIA H100 NVL", 95_830, "9.0")],
  ["H100", 96, nvidiaGpu("NVIDIA H100 96GB HBM3", 97_871, "9.0", true)],
  ["H800", 80, nvidiaGpu("NVIDIA H800", 81_559, "9.0", true)],
  ["H20", 96, nvidiaGpu("NVIDIA H20", 97_871, "9.0", true)],
  ["H20", 141, nvidiaGpu("NVIDIA H20-3e", 143_771, "9.0", true)],
  ["A100", 80, nvidiaGpu("NVIDIA A100-SXM4-80GB", 81_920, "8.0", true)],
  ["A100", 40, nvidiaGpu("NVIDIA A100-SXM4-40GB", 40_960, "8.0", true)],
  ["A800", 80, nvidiaGpu("NVIDIA A800-SXM4-80GB", 81_920, "8.0", true)],
  ["V100", 32, nvidiaGpu("Tesla V100-SXM2-32GB", 32_768, "7.0", true)],
  ["V100", 16, nvidiaGpu("Tesla V100-SXM2-16GB", 16_384, "7.0", true)],
  ["L40S", 48, nvidiaGpu("NVIDIA L40S", 46_068, "8.9")],
  ["L40", 48, nvidiaGpu("NVIDIA L40", 46_068, "8.9")],
  ["L20", 48, nvidiaGpu("NVIDIA L20", 46_068, "8.9")],
  ["L4", 24, nvidiaGpu("NVIDIA L4", 23_034, "8.9")],
  ["A40", 48, nvidiaGpu("NVIDIA A40", 46_068, "8.6")],
  ["A30", 24, nvidiaGpu("NVIDIA A30", 24_576, "8.0")],
  ["A16", 16, nvidiaGpu("NVIDIA A16", 15_356, "8.6")],
  ["A10", 24, nvidiaGpu("NVIDIA A10", 23_028, "8.6")],
  ["A10G", 24, nvidiaGpu("NVIDIA A10G", 23_028, "8.6")],
  ["T4", 16, nvidiaGpu("Tesla T4", 15_360, "7.5")],
  ["RTXPRO6000", 96, nvidiaGpu("NVIDIA RTX PRO 6000 Blackwell", 97_887, "12.0")],
  ["RTX6000-ADA", 48, nvidiaGpu("NVIDIA RTX 6000 Ada Generation", 49_140, "8.9")],
  ["A6000", 48, nvidiaGpu("NVIDIA RTX A6000", 49_140, "8.6")],
  ["A5000", 24, nvidiaGpu("NVIDIA RTX A5000", 24_564, "8.6")],
  ["A4000", 16, nvidiaGpu("NVIDIA RTX A4000", 16_376, "8.6")],
  ["RTX5090", 32, nvidiaGpu("NVIDIA GeForce RTX 5090", 32_607, "12.0")],
  ["RTX5080", 16, nvidiaGpu("NVIDIA GeForce RTX 5080", 16_303, "12.0")],
  ["RTX4090", 24, nvidiaGpu("NVIDIA GeForce RTX 4090", 24_564, "8.9")],
  ["RTX4080", 16, nvidiaGpu("NVIDIA GeForce RTX 4080", 16_376, "8.9")],
  ["RTX3090", 24, nvidiaGpu("NVIDIA GeForce RTX 3090", 24_576, "8.6")],
  ["MI250X", 64, amdGpu("MI250X", 65_520, "gfx90a")],
  ["MI300X", 192, amdGpu("MI300X", 196_592, "gfx942")],
  ["MI325X", 256, amdGpu("MI325X", 262_128, "gfx942")],
  ["MI355X", 288, amdGpu("MI355X", 294_896, "gfx950")],
];

/** Names that `--gpus` knows; a kind that is sold in another size, too, has one with that size. */
export const knownGpuNames: readonly string[] = KNOWN.map(([name, gb], index) =>
  KNOWN.findIndex(([first]) => first === name) === index ? name : `${name}-${gb}GB`
);

const MAX_GPUS = 64;

/**
 * The GPUs that a text such as `6xH200`, `2xA100-40GB,1xL4` or `4x48GB` stands for, all of them idle.
 * Throws 400 `bad_gpus` for any other text.
 */
export function describedGpus(text: string): HostGpus {
  const gpus: Gpu[] = [];
  const links = new Set<string>();
  for (const part of text.split(",")) {
    const match = /^\s*(?:(\d{1,3})\s*[x×*]\s*)?([A-Za-z0-9][\w. -]*)\s*$/i.exec(part);
    const count = Number(match?.[1] ?? 1);
    const kind = kindOf(match?.[2] ?? "");
    if (typeof kind === "string") throw badGpus(text, kind);
    if (count < 1 || gpus.length + count > MAX_GPUS) throw badGpus(text, "");
    const first = gpus.length;
    for (let n = 0; n < count; n++) {
      const index = first + n;
      const { linked, ...gpu } = kind;
      gpus.push({
        id: String(index),
        index,
        uuid: `GPU-${index}`,
        ...gpu,
        usedMiB: 0,
        numaNode: undefined,
      });
      if (linked) { for (let other = first; other < index; other++) links.add(linkOf(other, index)); }
    }
  }
  return { gpus, driver: undefined, linked: (a, b) => links.has(linkOf(a, b)), source: `--gpus ${text}` };
}

/** The kind that a name stands for, such as `H200`, `A100-40GB`, `RTX-4090` or `48GB`; a hint where it is none. */
function kindOf(text: string): KnownGpu | string {
  const name = text.trim();
  const sized = /^(?:(.+?)[\s_-]+)?(\d{1,4})G(?:I?B)?$/i.exec(name);
  const [, kind = "", size] = sized ?? [name, name];
  const gb = Number(size ?? 0);
  // A GPU of which only the size is known; 4 % are lost to its own bookkeeping.
  if (kind === "" && gb > 0) return nvidiaGpu(`${gb} GB GPU`, Math.floor(gb * 1024 * 0.96));
  const sizes = KNOWN.filter(([known]) => plainName(known) === plainName(kind));
  const found = size === undefined ? sizes[0] : sizes.find(([, one]) => one === gb);
  if (found !== undefined) return found[2];
  const [first] = sizes;
  if (first !== undefined) {
    return `; ${first[0]} is known with ${sizes.map(([, one]) => `${one} GB`).join(" or ")}`;
  }
  return `${name === "" ? "" : didYouMean(name, knownGpuNames)}; known names: ${knownGpuNames.join(", ")}`;
}

/** A name without its maker, its marks and its spaces: `GeForce RTX-4090` is `4090`. */
function plainName(name: string): string {
  return name.toUpperCase().replace(/[\s_-]/g, "").replace(/^(?:NVIDIA|TESLA|AMD|INSTINCT|GEFORCE|RTX)*/, "");
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
