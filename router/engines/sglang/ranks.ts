import { olderThan } from "../version.ts";
import type { Placement, PrefillSide } from "../../worker/placement.ts";

/** Members by which a client, or a router, chooses among the data-parallel ranks of SGLang servers. */
export const RANK_MEMBERS = ["data_parallel_rank", "routed_dp_rank", "disagg_prefill_dp_rank"] as const;

/** The members of a request that names ranks; empty where the servers choose. */
export type RankFields = { readonly [name in (typeof RANK_MEMBERS)[number]]?: number };

/** For a whole server, or a pair's prefill server: its rank, under the name that all versions know. */
export function rankFields({ rank }: Pick<PrefillSide, "rank">): RankFields {
  return rank === undefined ? {} : { data_parallel_rank: rank.index };
}

/**
 * For a pair's decode server: its rank, and that of the prefill server to fetch from. Versions before 0.5.8 take one
 * field for both, so they are told neither: the room says prefill's rank, and they choose their own.
 */
export function decodeRankFields(
  { rank, prefill }: Pick<Placement, "rank" | "prefill">,
  version: string | undefined,
): RankFields {
  if (version === undefined || olderThan(version, "0.5.8")) return {};
  return {
    ...(rank === undefined ? {} : { routed_dp_rank: rank.index }),
    ...(prefill?.rank === undefined ? {} : { disagg_prefill_dp_rank: prefill.rank.index }),
  };
}
