import type { JsonObject } from "../../base/json.ts";
import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { confidenceOf } from "./confidence.ts";
import type { ClusterState, Consensus, Pair } from "./exit_policy.ts";
import { stopRule } from "./stop_rules.ts";
import { unusable } from "./unusable.ts";

/** Members of a cluster in groups that agree. */
export interface Vote {
  /** The largest group as places in `completions`; empty when no two agree. */
  readonly leader: readonly number[];
  /** The stop rule holds for it. */
  readonly stops: boolean;
  readonly numbers: JsonObject;
}

/** Tells if two completions agree; undefined: not known, which counts as no. */
export type Agreement = (pair: Pair) => boolean | undefined;

/** Completions that can agree with others at all: neither cut nor empty, refused or a loop. */
export function usablePlaces({ completions }: ClusterState): number[] {
  return completions.flatMap((completion, place) => unusable(completion) === undefined ? [place] : []);
}

/** Groups the completions by agreement and applies the stop rule to the largest group. */
export function voteOf(state: ClusterState, agree: Agreement, settings: EarlyExitConfig): Vote {
  const usable = usablePlaces(state);
  const groups = groupsOf(usable, agree);
  const order = state.completions.map((_, place) => {
    const group = groups.findIndex((members) => members.includes(place));
    return group < 0 ? undefined : group;
  });
  const result = stopRule(settings.answer, { order, remaining: state.unfinished.length });
  const largest = groups.reduce<readonly number[]>(
    (best, group) => group.length > best.length ? group : best,
    [],
  );
  const ignored = state.completions.flatMap((completion) => {
    const reason = unusable(completion);
    return reason === undefined ? [] : [[completion.agent, reason] as const];
  });
  return {
    leader: largest.length < 2 ? [] : largest,
    stops: result.holds,
    numbers: {
      groups: groups.map((group) => group.map((place) => state.completions[place]!.agent)),
      ...(ignored.length === 0 ? {} : { ignored: Object.fromEntries(ignored) }),
      ...result.numbers,
    },
  };
}

/**
 * True when the stop rule would hold if all pairs of which nothing is known agreed. As long as it would not, no pair
 * needs to be compared.
 */
export function couldStop(state: ClusterState, agree: Agreement, settings: EarlyExitConfig): boolean {
  const usable = usablePlaces(state);
  return usable.some((place) => {
    const friends = usable.filter((other) => other === place || agree(pairOf(place, other)) !== false);
    const order = state.completions.map((_, at) => friends.includes(at) ? 0 : undefined);
    return stopRule(settings.answer, { order, remaining: state.unfinished.length }).holds;
  });
}

/** The members that agree, as a share of all that have answered, and the best of them: the most confident, then the first. */
export function consensusOf(
  { completions }: ClusterState,
  leader: readonly number[],
  settings: EarlyExitConfig,
): Consensus | undefined {
  if (leader.length < 2) return undefined;
  const confidence = (place: number) => confidenceOf(completions[place]!.logprobs, settings) ?? -1;
  const best = leader.reduce((best, place) => confidence(place) > confidence(best) ? place : best);
  return { share: leader.length / completions.length, agent: completions[best]!.agent };
}

/** Agents whose answers go on (DMV): all, or those of the largest group. */
export function kept(
  { completions }: ClusterState,
  leader: readonly number[],
  { keep }: EarlyExitConfig,
): string[] {
  const members = keep === "majority" && leader.length > 0
    ? completions.filter((_, place) => leader.includes(place))
    : completions;
  return members.map(({ agent }) => agent);
}

/** All pairs of the given places, which are in ascending order. */
export function pairsOf(places: readonly number[]): Pair[] {
  return places.flatMap((second, index) => places.slice(0, index).map((first): Pair => [first, second]));
}

/** Each completion joins the first group with all of whose members it agrees. */
function groupsOf(places: readonly number[], agree: Agreement): number[][] {
  const groups: number[][] = [];
  for (const place of places) {
    const group = groups.find((members) => members.every((member) => agree([member, place]) === true));
    if (group === undefined) groups.push([place]);
    else group.push(place);
  }
  return groups;
}

function pairOf(a: number, b: number): Pair {
  return a < b ? [a, b] : [b, a];
}
