import type { Gpu } from "../host/gpu.ts";
import { kvBytesPerTokenAndRank, type Reserve, reserveOf, weightsMiB } from "../model/memory.ts";
import { capacityMiB, type Demand, engineMiB, leastTokens } from "./demand.ts";

const MIB = 2 ** 20;

/** An engine with the GPUs that were found for it. */
export interface Assignment {
  readonly demand: Demand;
  readonly gpus: readonly Gpu[];
  readonly ranks: number;
}

/** An engine with its GPUs and its share of their memory. */
export interface GpuPlacement {
  readonly demand: Demand;
  /** GPUs of each of its hosts. */
  readonly gpus: readonly Gpu[];
  /** Ranks on all its hosts. */
  readonly ranks: number;
  readonly reserve: Reserve;
  readonly weightsMiB: number;
  readonly kvMiB: number;
  readonly kvTokens: number;
  readonly contextTokens: number;
  /** Names of the engines that use one of its GPUs, too. */
  readonly beside: readonly string[];
}

/** An engine while memory is split: `extraTokens` is open until its tightest GPU has been found. */
interface Share {
  readonly assignment: Assignment;
  readonly reserve: Reserve;
  readonly weightsMiB: number;
  readonly kvBytesPerToken: number;
  /** Tokens that its cache holds at least. */
  readonly leastTokens: number;
  /** Tokens beyond these; undefined while not decided. */
  extraTokens: number | undefined;
}

/**
 * Gives each engine a cache: what it needs at least, then engines that share a GPU get room for equally many tokens
 * more, and one that spans several GPUs gets what the fullest of them has. An engine alone on its GPUs may work in its
 * own large steps.
 */
export function splitMemory(assignments: readonly Assignment[]): GpuPlacement[] {
  const sharesOf = new Map<Gpu, Share[]>();
  const shares = assignments.map((assignment): Share => {
    const { demand, gpus, ranks } = assignment;
    const share: Share = {
      assignment,
      reserve: reserveFor(assignment, assignments),
      weightsMiB: weightsMiB(demand.shape, ranks),
      kvBytesPerToken: kvBytesPerTokenAndRank(demand.shape, ranks),
      leastTokens: leastTokens(demand),
      extraTokens: undefined,
    };
    for (const gpu of gpus) sharesOf.set(gpu, [...sharesOf.get(gpu) ?? [], share]);
    return share;
  });
  for (const share of shares) {
    const { demand, gpus } = share.assignment;
    if (demand.memoryFraction === undefined) continue;
    const whole = demand.memoryFraction * Math.min(...gpus.map((gpu) => gpu.totalMiB));
    const kvMiB = whole - share.weightsMiB - share.reserve.activationMiB - share.reserve.graphsMiB;
    share.extraTokens = Math.floor(kvMiB * MIB / share.kvBytesPerToken) - share.leastTokens;
  }
  // The GPU that leaves the fewest tokens decides for its engines; then the next.
  while (shares.some((share) => share.extraTokens === undefined)) {
    let tightest: { tokens: number; open: Share[] } | undefined;
    for (const [gpu, here] of sharesOf) {
      const open = here.filter((share) => share.extraTokens === undefined);
      if (open.length === 0) continue;
      const taken = here.reduce((sum, share) => sum + fixedMiB(share), 0);
      const perToken = open.reduce((sum, share) => sum + share.kvBytesPerToken, 0) / MIB;
      const tokens = Math.max(0, Math.floor((capacityMiB(gpu) - taken) / perToken));
      if (tightest === undefined || tokens < tightest.tokens) tightest = { tokens, open };
    }
    for (const share of tightest?.open ?? shares) share.extraTokens ??= tightest?.tokens ?? 0;
  }
  return shares.map((share): GpuPlacement => {
    const { demand, gpus, ranks } = share.assignment;
    const tokens = tokensOf(share);
    const usual = Math.min(demand.shape.maxContextTokens, Math.floor(tokens / 1_024) * 1_024);
    const beside = new Set(gpus.flatMap((gpu) => sharesOf.get(gpu) ?? []));
    return {
      demand,
      gpus,
      ranks,
      reserve: share.reserve,
      weightsMiB: share.weightsMiB,
      kvMiB: Math.ceil(tokens * share.kvBytesPerToken / MIB),
      kvTokens: tokens,
      contextTokens: demand.contextTokens ?? usual,
      beside: [...beside].filter((other) => other !== share).map((other) => other.assignment.demand.name),
    };
  });
}

/** Memory of a GPU that an engine has so far, in MiB. */
function fixedMiB(share: Share): number {
  return share.weightsMiB + share.reserve.activationMiB + share.reserve.graphsMiB +
    Math.ceil(tokensOf(share) * share.kvBytesPerToken / MIB);
}

function tokensOf(share: Share): number {
  return Math.max(0, share.leastTokens + (share.extraTokens ?? 0));
}

/** The full reserve for an engine alone on its GPUs, if its cache then still holds four times what it must. */
function reserveFor({ demand, gpus, ranks }: Assignment, all: readonly Assignment[]): Reserve {
  const smallest = gpus.toSorted((a, b) => capacityMiB(a) - capacityMiB(b))[0];
  const totalMiB = smallest?.totalMiB ?? 0;
  const lean = reserveOf({ ...demand, totalMiB, ranks, kind: "lean" });
  const isAlone = all.every((other) =>
    other.demand === demand || !other.gpus.some((gpu) => gpus.includes(gpu))
  );
  if (!isAlone || smallest === undefined) return lean;
  const full = reserveOf({ ...demand, totalMiB, ranks, kind: "full" });
  const limit = demand.memoryFraction === undefined
    ? capacityMiB(smallest)
    : demand.memoryFraction * totalMiB;
  const usualMiB = engineMiB(demand, ranks, { reserve: full, tokens: 4 * leastTokens(demand) });
  return usualMiB <= limit ? full : lean;
}

/**
 * Share of GPU memory that an engine is told, rounded down to three decimals. vLLM (`--gpu-memory-utilization`):
 * weights, activations and cache, as a part of the GPU's whole memory. SGLang (`--mem-fraction-static`): weights and
 * cache, as a part of what is free when it starts.
 *
 * Beside other engines, what is free depends on which of them run. It is least after a crash, when the engine finds
 * only what it had itself: SGLang's share is a part of that, and `--max-total-tokens` bounds it where more is free.
 */
export function fractionOf({ demand, gpus, weightsMiB, kvMiB, reserve, beside }: GpuPlacement): number {
  const own = weightsMiB + reserve.activationMiB + reserve.graphsMiB + kvMiB;
  const shares = gpus.map((gpu) => {
    if (demand.family === "vllm") return (weightsMiB + reserve.activationMiB + kvMiB) / gpu.totalMiB;
    return (weightsMiB + kvMiB) / (beside.length > 0 ? own : gpu.totalMiB - gpu.usedMiB);
  });
  // Ranks agree on the smallest cache, so each GPU must bear the fraction.
  return Math.floor((demand.memoryFraction ?? Math.min(...shares)) * 1000) / 1000;
}
