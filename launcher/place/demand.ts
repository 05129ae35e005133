import type { EngineFamily, EngineRole } from "../engine_kind.ts";
import type { Gpu } from "../host/gpu.ts";
import { kvBytesPerTokenAndRank, marginMiB, type Reserve, reserveOf, weightsMiB } from "../model/memory.ts";
import type { ModelShape } from "../model/model_shape.ts";

/** Shortest context for which an engine is started when nothing is asked for. */
const LEAST_CONTEXT_TOKENS = 8_192;

/** An engine that needs GPUs. */
export interface Demand {
  /** Name of the engine, such as `8b-prefill`. */
  readonly name: string;
  readonly modelKey: string;
  readonly family: EngineFamily;
  readonly role: EngineRole;
  readonly shape: ModelShape;
  /** GPUs that the configuration asks for; undefined: as few as hold it. */
  readonly tensorParallel: number | undefined;
  /** Hosts that it spans. */
  readonly nodes: number;
  /** Longest prompt plus answer that must fit into its cache; undefined: as much as there is room for. */
  readonly contextTokens: number | undefined;
  /** Share of each GPU that it was given; undefined: computed. */
  readonly memoryFraction: number | undefined;
  /** Indexes that it may use; undefined: any. */
  readonly gpus: readonly number[] | undefined;
}

/** Tokens that an engine's cache must hold at least. */
export function leastTokens(demand: Demand): number {
  return demand.contextTokens ?? Math.min(demand.shape.maxContextTokens, LEAST_CONTEXT_TOKENS);
}

/** Memory that an engine divided among `ranks` takes of a GPU with this reserve and a cache for `tokens`, in MiB. */
export function engineMiB(
  { shape }: Demand,
  ranks: number,
  { reserve, tokens }: { readonly reserve: Reserve; readonly tokens: number },
): number {
  const kvMiB = Math.ceil(tokens * kvBytesPerTokenAndRank(shape, ranks) / 2 ** 20);
  return weightsMiB(shape, ranks) + reserve.activationMiB + reserve.graphsMiB + kvMiB;
}

/** Least memory that an engine takes of a GPU when it is divided among `ranks`, in MiB. */
export function leastMiB(demand: Demand, gpu: Gpu, ranks: number): number {
  if (demand.memoryFraction !== undefined) return Math.ceil(demand.memoryFraction * gpu.totalMiB);
  const reserve = reserveOf({ ...demand, totalMiB: gpu.totalMiB, ranks, kind: "lean" });
  return engineMiB(demand, ranks, { reserve, tokens: leastTokens(demand) });
}

/** Memory of a GPU that engines may be given, in MiB. */
export function capacityMiB(gpu: Gpu): number {
  return Math.max(0, gpu.totalMiB - gpu.usedMiB - marginMiB(gpu.totalMiB));
}
