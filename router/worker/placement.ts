import type { EngineError } from "./engine_error.ts";
import type { WorkerRank } from "./worker_access.ts";

/** The prefill half of a pair. */
export interface PrefillSide {
  readonly workerId: string;
  readonly url: string;
  /** Host at which decode workers reach its bootstrap registry (SGLang); the one of `url` unless configured otherwise. */
  readonly bootstrapHost: string;
  readonly bootstrapPort: number | undefined;
  /** Its rank that is to read the prompt; absent: the server chooses. */
  readonly rank?: WorkerRank | undefined;
}

/** `ok`: answered. `failed`: counts against the worker. `rejected`: its answer was a 4xx or 429/503. `aborted`: we left. */
export type PlacementOutcome = "ok" | "failed" | "rejected" | "aborted";

/** Tokens of a prompt, and those of them that were in the worker's prefix cache. */
export interface CacheReport {
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** A call's place, through which it may say early how far it is; whoever leased the place gives it back at last. */
export interface Placement {
  /** The worker; of a pair, its decode half. */
  readonly workerId: string;
  readonly url: string;
  /** The worker's rank that the call is placed on; absent: the server chooses. */
  readonly rank?: WorkerRank | undefined;
  /** The prefill half, for engines that split prefill and decode. Its in-flight count is held, too. */
  readonly prefill?: PrefillSide | undefined;
  /**
   * Tells the pool how it went and gives the place back. Calling it again does nothing.
   * With a `side`, only that half of a pair, and what is still held is given back by the call without one: an engine
   * gives the prefill half back as soon as it has done its work, and either half as `failed` when it knows which one
   * it was (then the last call's `failed` counts against no other).
   */
  release(outcome: PlacementOutcome, side?: "prefill" | "decode"): void;
  /**
   * Calls the listener when a worker of the place that still works for the call is taken out of service: no more is to
   * be expected of it. At most one listener; at once when it has happened already.
   */
  onLost?(listener: (error: EngineError) => void): void;
  /**
   * Tells the pool that the prompt has been read (of a pair, by the prefill half): warms may use that server again, and
   * its cache has the prompt now. The former is implied when it is given back. To be called again with what the engine
   * says that it found in its cache, once that is known.
   */
  promptRead(found?: CacheReport): void;
}
