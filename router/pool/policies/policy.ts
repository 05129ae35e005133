import type { CacheReport } from "../../worker/placement.ts";
import type { PromptPrefix } from "../prompt_prefix.ts";

/** A worker that may take a request, as a policy sees it. */
export interface Candidate {
  /** Place in the order in which workers joined; never reused. Candidate lists are sorted by it. */
  readonly ordinal: number;
  /** A hash of its address: the same in every router, whatever the order in which workers joined. */
  readonly identity: number;
  /** As of now: where several threads serve, another number at each look. */
  readonly inFlight: number;
}

/** What a policy may look at of a request. */
export interface PolicyRequest {
  /** Equal keys belong together. */
  readonly stickyKey?: string | undefined;
  readonly prompt?: PromptPrefix | undefined;
}

/** Workers among which a policy chooses. */
export interface WorkerChoice<C extends Candidate> {
  /** Those with room; at least one. */
  readonly candidates: readonly C[];
  /** Those and the ones that are only full for the moment. */
  readonly usable: readonly C[];
}

/** One way to choose a worker for a request, with what it has to remember for that. */
export interface Policy {
  /** True where a key alone decides; under the others the pool remembers where a key went. */
  readonly placesKeys?: true;
  /** One of the candidates. */
  choose<C extends Candidate>(choice: WorkerChoice<C>, request: PolicyRequest): C;
  /** A worker has read a request's prompt; `found`, where the engine says so: what was in its cache before. */
  promptRead?(ordinal: number, request: PolicyRequest, found: CacheReport | undefined): void;
}

/** The candidates with the fewest requests in flight; at least one, each looked at once: other threads change them. */
export function idlestOf<C extends Candidate>(candidates: readonly C[]): readonly C[] {
  let fewest = Infinity;
  let idlest: C[] = [];
  for (const candidate of candidates) {
    const { inFlight } = candidate;
    if (inFlight > fewest) continue;
    if (inFlight < fewest) idlest = [];
    fewest = inFlight;
    idlest.push(candidate);
  }
  return idlest;
}

/** The first candidate behind `lastOrdinal`, wrapping round: whoever waits longest in the rotation. */
export function nextInRotation<C extends Candidate>(candidates: readonly C[], lastOrdinal: number): C {
  const first = candidates[0];
  if (first === undefined) throw new RangeError("Cannot choose a worker: the list of candidates is empty");
  return candidates.find((candidate) => candidate.ordinal > lastOrdinal) ?? first;
}
