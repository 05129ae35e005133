import { type Gpu, linkOf, type ShownGpus } from "./gpu.ts";

/** Columns that are asked of `nvidia-smi --query-gpu`, in this order. */
export const NVIDIA_COLUMNS =
  "index,uuid,name,memory.total,memory.used,compute_cap,driver_version,mig.mode.current";

/** The commands whose output, one after the other, describes a host; `canopy plan --gpus FILE` reads it. */
export const NVIDIA_COMMANDS: readonly (readonly string[])[] = [
  [`--query-gpu=${NVIDIA_COLUMNS}`, "--format=csv,noheader,nounits"],
  ["topo", "-m"],
  ["-L"],
  // The table is the only place that shows the memory of MIG slices.
  [],
];

/**
 * Reads the output of `NVIDIA_COMMANDS`, in any order and with any of them but the first left out.
 * A GPU in MIG mode is replaced by its slices.
 */
export function parseNvidia(text: string): ShownGpus {
  // Headers of the matrix are underlined on terminals, and in files as well.
  // deno-lint-ignore no-control-regex
  const lines = text.replace(/\x1b\[[0-9;]*m/g, "").split(/\r?\n/);
  const { links, numa } = parseTopology(lines);
  const whole: { gpu: Gpu; inSlices: boolean }[] = [];
  let driver: string | undefined;
  for (const line of lines) {
    if (!/^\d+, GPU-/.test(line)) continue;
    const [index = "", uuid = "", name = "", total = "", used = "", cap = "", version = "", mig = ""] = line
      .split(",").map((cell) => cell.trim());
    driver ??= shownValue(version);
    const totalMiB = Number(total);
    // Chips that share the host's memory show [N/A]: there is nothing to plan with.
    if (!Number.isFinite(totalMiB)) continue;
    whole.push({
      gpu: {
        id: index,
        index: Number(index),
        uuid,
        name,
        vendor: "nvidia",
        totalMiB,
        usedMiB: Number.isFinite(Number(used)) ? Number(used) : 0,
        computeCapability: shownValue(cap),
        numaNode: numa.get(Number(index)),
      },
      inSlices: mig === "Enabled",
    });
  }
  const slices = parseSlices(lines);
  const gpus = whole.flatMap(({ gpu, inSlices }) =>
    inSlices
      ? slices.filter((slice) => slice.gpu === gpu.index).map((slice): Gpu => ({
        ...gpu,
        id: slice.uuid,
        uuid: slice.uuid,
        name: `${gpu.name} MIG ${slice.profile}`,
        totalMiB: slice.totalMiB,
        usedMiB: slice.usedMiB,
      }))
      : [gpu]
  );
  return { gpus, driver, linked: (a, b) => links.has(linkOf(a, b)) };
}

function shownValue(text: string): string | undefined {
  return text === "" || text.startsWith("[") ? undefined : text;
}

/** Reads the matrix of `nvidia-smi topo -m`. */
function parseTopology(
  lines: readonly string[],
): { links: ReadonlySet<string>; numa: ReadonlyMap<number, number> } {
  const links = new Set<string>();
  const numa = new Map<number, number>();
  const cellsOf = (line: string) =>
    line.split(line.includes("\t") ? /\t/ : /\s{2,}/).map((cell) => cell.trim());
  const headerAt = lines.findIndex((line) => /^\s+GPU\d+\s/.test(line));
  const header = cellsOf(lines[headerAt] ?? "");
  const numaColumn = header.indexOf("NUMA Affinity");
  for (const line of headerAt < 0 ? [] : lines.slice(headerAt + 1)) {
    const row = /^GPU(\d+)\s/.exec(line);
    if (row === null) continue;
    const from = Number(row[1]);
    const cells = cellsOf(line);
    for (const [column, cell] of cells.entries()) {
      const to = /^GPU(\d+)$/.exec(header[column] ?? "");
      if (to === null || column === 0 || !cell.startsWith("NV")) continue;
      links.add(linkOf(from, Number(to[1])));
    }
    const node = /^\d+/.exec(numaColumn < 0 ? "" : cells[numaColumn] ?? "");
    if (node !== null) numa.set(from, Number(node[0]));
  }
  return { links, numa };
}

interface Slice {
  readonly gpu: number;
  readonly device: number;
  readonly profile: string;
  readonly uuid: string;
  readonly totalMiB: number;
  readonly usedMiB: number;
}

function parseSlices(lines: readonly string[]): Slice[] {
  /** By `GPU/device`, from the table. */
  const memory = new Map<string, { usedMiB: number; totalMiB: number }>();
  for (const line of lines) {
    const row = /^\|\s+(\d+)\s+\d+\s+\d+\s+(\d+)\s+\|\s+(\d+)MiB\s*\/\s*(\d+)MiB/.exec(line);
    if (row === null) continue;
    memory.set(`${row[1]}/${row[2]}`, { usedMiB: Number(row[3]), totalMiB: Number(row[4]) });
  }
  const slices: Slice[] = [];
  let gpu: number | undefined;
  for (const line of lines) {
    gpu = Number(/^GPU (\d+):/.exec(line)?.[1] ?? gpu);
    const found = /^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)/.exec(line);
    const [, profile, device, uuid] = found ?? [];
    if (gpu === undefined || profile === undefined || device === undefined || uuid === undefined) continue;
    // Profiles are named after nominal gigabytes, of which at least 95 % can be used (1g.5gb: 4,864 MiB).
    const nominal = Number(/(\d+)gb/.exec(profile)?.[1] ?? 0) * 1024 * 0.95;
    const shown = memory.get(`${gpu}/${device}`) ?? { usedMiB: 0, totalMiB: Math.floor(nominal) };
    slices.push({ gpu, device: Number(device), profile, uuid, ...shown });
  }
  return slices;
}
