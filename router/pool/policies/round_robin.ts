import { type Candidate, nextInRotation } from "./policy.ts";

/** Each candidate in turn, whatever its load. */
export function roundRobin<C extends Candidate>(candidates: readonly C[], lastOrdinal: number): C {
  return nextInRotation(candidates, lastOrdinal);
}
