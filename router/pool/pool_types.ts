import type { Placement, PlacementHint } from "../engines/engine.ts";

/** What is known of one server process that serves a model. */
export interface WorkerStatus {
  readonly id: string;
  readonly url: string;
  /** Its half of the work, where prefill and decode are split. */
  readonly role?: "prefill" | "decode";
  /** `unknown` until the first check; only `healthy` and `unknown` workers get work. */
  readonly health: "unknown" | "healthy" | "unhealthy" | "draining";
  readonly breaker: "closed" | "open" | "half_open";
  readonly inFlight: number;
  readonly served: number;
  readonly failures: number;
  readonly lastError: string | undefined;
}

/** The workers of one model. */
export interface Pool {
  readonly model: string;
  /** Chooses a worker, or a pair of them, and counts the request there. Throws `no_worker` (503) when none is usable. */
  place(hint: PlacementHint): Placement;
  workers(): readonly WorkerStatus[];
  /** Lower-case headers that every request to a worker carries, its bearer token among them. */
  headers?(workerId: string): Readonly<Record<string, string>>;
  /** True when at least one worker, or one of either half, can take work. */
  readonly ready: boolean;
}
