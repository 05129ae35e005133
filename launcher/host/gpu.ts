/** One GPU, or one MIG slice of it, as the vendor's tool shows it. */
export interface Gpu {
  /** Its name in CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES): an index, or the UUID of a slice. */
  readonly id: string;
  readonly index: number;
  readonly uuid: string;
  readonly name: string;
  readonly vendor: "nvidia" | "amd";
  readonly totalMiB: number;
  /** Memory that others used when the host was looked at. */
  readonly usedMiB: number;
  /** Such as "9.0"; undefined where the tool does not say. */
  readonly computeCapability: string | undefined;
  readonly numaNode: number | undefined;
}

/** The GPUs that may be planned with. */
export interface HostGpus {
  readonly gpus: readonly Gpu[];
  readonly driver: string | undefined;
  /** True for two GPUs (by index) with a direct link: NVLink, xGMI. */
  linked(a: number, b: number): boolean;
  /** Origin of this list, for people: `nvidia-smi`, `rocm-smi`, `--gpus`, a file. */
  readonly source: string;
}

/** The GPUs of a host as a vendor's tool shows them. */
export type ShownGpus = Omit<HostGpus, "source">;

/** A host without GPUs. */
export const noGpus: HostGpus = { gpus: [], driver: undefined, linked: () => false, source: "none" };

/** Share of a GPU's memory in use from which it counts as busy; a desktop, or a driver's own share, is less. */
const BUSY_SHARE = 0.05;

/** True when others use so much of a GPU that nothing is planned on it. */
export function isBusy(gpu: Gpu): boolean {
  return gpu.usedMiB > gpu.totalMiB * BUSY_SHARE;
}

/** True for a part of a GPU: parts have no links, so no engine can span them. */
export function isSlice(gpu: Gpu): boolean {
  return gpu.uuid.startsWith("MIG-");
}

/** Key for a pair of GPUs (by index), in either order. */
export function linkOf(a: number, b: number): string {
  return a < b ? `${a}-${b}` : `${b}-${a}`;
}
