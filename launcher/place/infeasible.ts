import { CanopyError } from "../../base/errors.ts";
import { type Gpu, type HostGpus, isBusy } from "../host/gpu.ts";
import { gib, kvBytesPerTokenAndRank, weightsMiB } from "../model/memory.ts";
import { type Demand, leastTokens } from "./demand.ts";
import { place, type Unplaced } from "./place.ts";

const MAX_MORE_GPUS = 32;
const SHORT_CONTEXT_TOKENS = 8_192;

/** The error of a plan that cannot be: what is missing, and what would fit instead. */
export function infeasible(demands: readonly Demand[], host: HostGpus, unplaced: Unplaced): CanopyError {
  const alternatives = alternativesOf(demands, host);
  const nearest = alternatives.length === 0
    ? `nothing near it fits; serve smaller models, or use more hosts`
    : `what would fit: ${alternatives.join("; or ")}`;
  const message = `Cannot place ${unplaced.demand.name}: ${missing(unplaced, host)}; ${nearest}`;
  return new CanopyError(message, { code: "no_room", status: 400 });
}

function missing({ demand, needMiB, ranks, largestFreeMiB }: Unplaced, host: HostGpus): string {
  const busy = host.gpus.filter(isBusy);
  const inUse = busy.length === 0
    ? ""
    : ` (${
      busy.map((gpu) => `GPU ${gpu.id} is in use by others, ${gib(gpu.usedMiB)} of ${gib(gpu.totalMiB)} GiB`)
        .join(
          ", ",
        )
    })`;
  const allowed = demand.gpus;
  const usable = host.gpus.filter((gpu) => !isBusy(gpu) && (allowed?.includes(gpu.index) ?? true));
  if (usable.length === 0) {
    const which = allowed === undefined ? "no GPU is free" : `none of the GPUs ${allowed.join(", ")} is free`;
    return `${which}${inUse}`;
  }
  const where = ranks === 1 ? "of one GPU" : `of each of ${ranks} GPUs`;
  if (usable.length < ranks / demand.nodes) {
    return `it is divided among ${ranks} GPUs, and ${usable.length} ${
      usable.length === 1 ? "is" : "are"
    } free${inUse}`;
  }
  const weights = gib(weightsMiB(demand.shape, ranks));
  const cache = gib(leastTokens(demand) * kvBytesPerTokenAndRank(demand.shape, ranks) / 2 ** 20);
  return `it needs ${gib(needMiB)} GiB ${where} (weights ${weights}, cache for ${
    leastTokens(demand)
  } tokens ${cache}, the rest for computing), and at most ${gib(largestFreeMiB)} GiB are left on one${inUse}`;
}

function alternativesOf(demands: readonly Demand[], host: HostGpus): string[] {
  const fits = (tried: readonly Demand[], on = host) => "placed" in place(tried, on);
  const found: string[] = [];
  const short = demands.map((demand) => ({
    ...demand,
    contextTokens: demand.contextTokens === undefined
      ? undefined
      : Math.min(demand.contextTokens, SHORT_CONTEXT_TOKENS),
  }));
  const whole = withoutPairs(demands);
  const halved = demands.map((demand) =>
    /^(bf16|fp16)$/.test(demand.shape.weightType)
      ? { ...demand, shape: { ...demand.shape, weightBytes: demand.shape.weightBytes / 2 } }
      : demand
  );
  if (fits(short)) found.push(`context_tokens of at most ${SHORT_CONTEXT_TOKENS}`);
  else if (whole.length < demands.length && fits(whole)) {
    found.push("one server for each model instead of pairs (an engine without -pd)");
  } else if (fits(halved)) found.push("weights in FP8 instead of 16 bits");
  else if (fits(withoutPairs(halved))) found.push("weights in FP8, and no pairs");
  const more = moreGpus(demands, host);
  if (more !== undefined) found.push(more);
  return found;
}

function withoutPairs(demands: readonly Demand[]): Demand[] {
  return demands.flatMap((demand) => demand.role === "decode" ? [] : [{ ...demand, role: "whole" as const }]);
}

/** The smallest number of further GPUs, of the kind that the host has, with which it fits. */
function moreGpus(demands: readonly Demand[], host: HostGpus): string | undefined {
  const largest = host.gpus.toSorted((a, b) => b.totalMiB - a.totalMiB)[0];
  if (largest === undefined) return undefined;
  const first = Math.max(...host.gpus.map((gpu) => gpu.index)) + 1;
  // More GPUs do not help an engine that is bound to some.
  for (let count = 1; count <= MAX_MORE_GPUS; count++) {
    const added = Array.from({ length: count }, (_, at): Gpu => ({
      ...largest,
      id: String(first + at),
      index: first + at,
      uuid: `${largest.uuid}+${at}`,
      usedMiB: 0,
    }));
    const { gpus, linked } = host;
    if ("placed" in place(demands, { ...host, gpus: [...gpus, ...added], linked })) {
      return `${count} more ${count === 1 ? "GPU" : "GPUs"} like ${largest.name}`;
    }
  }
  return undefined;
}
