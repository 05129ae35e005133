import { type Gpu, type HostGpus, isBusy, isSlice } from "../host/gpu.ts";
import { capacityMiB, type Demand, leastMiB } from "./demand.ts";
import { type Assignment, type GpuPlacement, splitMemory } from "./memory_split.ts";

const MAX_RANKS = 64;

/** An engine for which there is no room, and what is missing. */
export interface Unplaced {
  readonly demand: Demand;
  /** Memory of each GPU that it needs when divided among `ranks`, in MiB. */
  readonly needMiB: number;
  /** The smallest number of GPUs that could do. */
  readonly ranks: number;
  /** Most that a free GPU has left, in MiB. */
  readonly largestFreeMiB: number;
}

/** A GPU while engines are put on it. */
interface Slot {
  readonly gpu: Gpu;
  freeMiB: number;
  readonly holds: Demand[];
}

/**
 * Puts engines on idle GPUs: each on GPUs of its own while there are enough, prefill and decode of a
 * model apart if possible, the largest first; then splits their memory. Gives the first engine without room otherwise.
 */
export function place(
  demands: readonly Demand[],
  host: HostGpus,
): { readonly placed: readonly GpuPlacement[] } | { readonly unplaced: Unplaced } {
  let unplaced: Unplaced | undefined;
  // Spreading leaves each engine the most; where it leaves no room for a large one, packing may.
  for (const strategy of ["spread", "pack"] as const) {
    const assigned = assign(demands, host, strategy);
    if ("unplaced" in assigned) unplaced ??= assigned.unplaced;
    else return { placed: splitMemory(assigned.assignments) };
  }
  return unplaced === undefined ? { placed: [] } : { unplaced };
}

function assign(
  demands: readonly Demand[],
  host: HostGpus,
  strategy: "spread" | "pack",
): { readonly assignments: readonly Assignment[] } | { readonly unplaced: Unplaced } {
  const slots = host.gpus.filter((gpu) => !isBusy(gpu)).map((gpu): Slot => ({
    gpu,
    freeMiB: capacityMiB(gpu),
    holds: [],
  }));
  const sized = demands.map((demand) => ({ demand, ranks: ranksOf(demand, slots) }));
  const order = sized.toSorted((a, b) =>
    b.ranks[0]! - a.ranks[0]! ||
    b.demand.shape.weightBytes / b.ranks[0]! - a.demand.shape.weightBytes / a.ranks[0]!
  );
  const found = new Map<Demand, Assignment>();
  for (const { demand, ranks } of order) {
    let assignment: Assignment | undefined;
    for (const count of ranks) {
      const chosen = choose(demand, count, { slots, host, strategy });
      if (chosen === undefined) continue;
      for (const slot of chosen) {
        slot.freeMiB -= leastMiB(demand, slot.gpu, count);
        slot.holds.push(demand);
      }
      assignment = { demand, gpus: chosen.map((slot) => slot.gpu), ranks: count };
      break;
    }
    if (assignment === undefined) return { unplaced: describe(demand, ranks, slots) };
    found.set(demand, assignment);
  }
  return { assignments: demands.flatMap((demand) => found.get(demand) ?? []) };
}

/** GPUs to choose among, and whether engines are spread over them or packed onto few. */
interface Choice {
  readonly slots: readonly Slot[];
  readonly host: HostGpus;
  readonly strategy: "spread" | "pack";
}

/** Numbers of GPUs that an engine may be divided among, the best first; all of its hosts have equally many. */
function ranksOf(demand: Demand, slots: readonly Slot[]): number[] {
  if (demand.tensorParallel !== undefined) return [demand.tensorParallel];
  const counts: number[] = [];
  for (let count = demand.nodes; count <= MAX_RANKS; count *= 2) {
    if (demand.shape.attentionHeads % count === 0 && count / demand.nodes <= Math.max(1, slots.length)) {
      counts.push(count);
    }
  }
  if (counts.length === 0) counts.push(demand.nodes);
  const allowed = slots.filter((slot) => isAllowed(demand, slot.gpu));
  // What does not fit on an empty GPU needs no trying; the last is kept to tell what is missing.
  const fitting = counts.filter((count) =>
    allowed.filter((slot) => leastMiB(demand, slot.gpu, count) <= capacityMiB(slot.gpu)).length >=
      count / demand.nodes
  );
  return fitting.length > 0 ? fitting : counts.slice(-1);
}

function isAllowed(demand: Demand, gpu: Gpu): boolean {
  return demand.gpus === undefined || demand.gpus.includes(gpu.index);
}

function choose(
  demand: Demand,
  ranks: number,
  { slots, host, strategy }: Choice,
): Slot[] | undefined {
  const count = ranks / demand.nodes;
  if (!Number.isInteger(count)) return undefined;
  const candidates = slots.filter(({ gpu, freeMiB }) =>
    isAllowed(demand, gpu) && leastMiB(demand, gpu, ranks) <= freeMiB && (count === 1 || !isSlice(gpu))
  );
  // Sharing a GPU with the other half of its pair gains nothing.
  const peers = ({ holds }: Slot) => holds.filter((other) => other.modelKey === demand.modelKey).length;
  const order = candidates.toSorted((a, b) =>
    strategy === "spread"
      ? peers(a) - peers(b) || a.holds.length - b.holds.length || b.freeMiB - a.freeMiB ||
        a.gpu.index - b.gpu.index
      : peers(a) - peers(b) || a.freeMiB - b.freeMiB || a.gpu.index - b.gpu.index
  );
  if (count === 1) return order.slice(0, 1).length === 1 ? order.slice(0, 1) : undefined;
  // Ranks wait for each other: equal GPUs, joined by links and on one NUMA node where there is a choice.
  let best: { group: Slot[]; score: number } | undefined;
  for (const first of order) {
    const near = (slot: Slot) =>
      (host.linked(first.gpu.index, slot.gpu.index) ? 0 : 2) +
      (first.gpu.numaNode === slot.gpu.numaNode ? 0 : 1);
    const others = order.filter((slot) => slot !== first && slot.gpu.name === first.gpu.name);
    const group = [first, ...others.toSorted((a, b) => near(a) - near(b)).slice(0, count - 1)];
    if (group.length < count) continue;
    const crowd = group.reduce((sum, slot) => sum + slot.holds.length, 0);
    const score = group.reduce((sum, slot) => sum + near(slot), 0) +
      (strategy === "spread" ? 100 * crowd : 0);
    if (best === undefined || score < best.score) best = { group, score };
  }
  return best?.group.toSorted((a, b) => a.gpu.index - b.gpu.index);
}

function describe(demand: Demand, ranks: readonly number[], slots: readonly Slot[]): Unplaced {
  const allowed = slots.filter((slot) => isAllowed(demand, slot.gpu));
  const largest = allowed.toSorted((a, b) => b.freeMiB - a.freeMiB)[0];
  const count = ranks[0] ?? demand.nodes;
  return {
    demand,
    ranks: count,
    needMiB: largest === undefined ? 0 : leastMiB(demand, largest.gpu, count),
    largestFreeMiB: largest?.freeMiB ?? 0,
  };
}
