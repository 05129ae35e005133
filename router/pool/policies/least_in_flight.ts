import { type Candidate, nextInRotation } from "./policy.ts";

/** A candidate with the fewest requests in flight; ties go round, so that no idle worker starves. */
export function leastInFlight<C extends Candidate>(candidates: readonly C[], lastOrdinal: number): C {
  let fewest = Infinity;
  for (const candidate of candidates) fewest = Math.min(fewest, candidate.inFlight);
  return nextInRotation(candidates.filter((candidate) => candidate.inFlight === fewest), lastOrdinal);
}
