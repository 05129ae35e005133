/** A worker that may take a request, as a policy sees it. */
export interface Candidate {
  /** Place in the order in which workers joined; never reused. Candidate lists are sorted by it. */
  readonly ordinal: number;
  readonly inFlight: number;
}

/**
 * Chooses one of a non-empty list of candidates. Pure: `lastOrdinal` is the ordinal of the worker that the pool
 * chose last (its seeded start value before the first choice), and is all the memory that a policy has.
 */
export type Policy = <C extends Candidate>(candidates: readonly C[], lastOrdinal: number) => C;

/** The first candidate behind `lastOrdinal`, wrapping round: whoever waits longest in the rotation. */
export function nextInRotation<C extends Candidate>(candidates: readonly C[], lastOrdinal: number): C {
  const first = candidates[0];
  if (first === undefined) throw new RangeError("Cannot choose a worker: the list of candidates is empty");
  return candidates.find((candidate) => candidate.ordinal > lastOrdinal) ?? first;
}
