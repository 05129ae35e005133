import type { PolicyRequest } from "./policies/policy.ts";
import type { Placement } from "../worker/placement.ts";

/**
 * Wishes of a request about the worker that it gets. Equal sticky keys go to the same worker while it is in service (an
 * agent's warms and its generate).
 */
export interface PlaceHint extends PolicyRequest {
  /** Workers (by id) that an earlier attempt failed on; of a pair they are avoided, not ruled out. */
  readonly exclude?: ReadonlySet<string> | undefined;
}

/** Wishes of a request, and its turn in the queue. */
export interface LeaseHint extends PlaceHint {
  /** Number from the router's `Arrivals`: of two requests that wait, the lower one comes first. */
  readonly arrival: number;
  /** Stated by the request itself; lower values come first, whatever their arrival. 0 when absent. */
  readonly priority?: number | undefined;
}

/**
 * A request's place on a worker, or on both workers of a pair. It ends with `release`, which may be called any number
 * of times: each share is given back once, and the next request in the queue gets it.
 */
export interface Lease extends Placement {
  /** Id of the worker that reads the prompt and keeps its prefix: of a pair, the prefill half. */
  readonly home: string;
  /** Of a pair: time since its last hand-off was over, in ms; Infinity before the first. */
  readonly idleMs?: number | undefined;
}
