import type { Candidate } from "./policy.ts";

/**
 * Rank of a worker for a key, 0 to 2^32 - 1: the highest is the key's first choice (rendezvous hashing, Thaler and
 * Ravishankar 1998). Every router ranks alike, and a worker that leaves moves only its own keys.
 */
export function rankOf(key: number, { identity }: Candidate): number {
  let hash = key ^ identity;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  // Twice: the ranks of one key at several workers must not hang together.
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d);
  hash = Math.imul(hash ^ (hash >>> 15), 0x846ca68b);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** The candidate with the highest rank among those that `fits` lets through; undefined when there is none. */
export function highestRanked<C extends Candidate>(
  candidates: readonly C[],
  key: number,
  fits?: (candidate: C) => boolean,
): C | undefined {
  let highest = -1;
  let chosen: C | undefined;
  for (const candidate of candidates) {
    if (fits !== undefined && !fits(candidate)) continue;
    const rank = rankOf(key, candidate);
    if (rank <= highest) continue;
    highest = rank;
    chosen = candidate;
  }
  return chosen;
}
