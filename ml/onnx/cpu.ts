import { readFileSync } from "node:fs";
import { cpus } from "node:os";

/** Instructions that decide how products of 8 bits are computed, by Linux' names. */
const INSTRUCTIONS = ["avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm"];

/** The CPU in words, such as `AMD EPYC (avx2)`; its instructions are known on Linux only. */
export function describeCpu(): string {
  const [first] = cpus();
  const model = first?.model.trim() || "a CPU of unknown kind";
  const known = new Set(/^(?:flags|Features)\s*:(.*)$/m.exec(cpuInfo())?.[1]?.trim().split(/\s+/));
  if (known.size === 0) return model;
  return `${model} (${INSTRUCTIONS.filter((name) => known.has(name)).join(", ") || "without AVX2"})`;
}

function cpuInfo(): string {
  try {
    return readFileSync("/proc/cpuinfo", "utf8");
  } catch {
    return "";
  }
}
