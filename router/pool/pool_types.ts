import type { Placement, PlacementHint } from "../worker/placement.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";

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
/** A pool together with what its owner may do to it. */

export interface ManagedPool extends Pool {
  /** Checks the workers' health until the signal aborts. Call it once. */
  start(signal: AbortSignal): void;
  /**
   * Adds a worker and returns its id. Throws 409 `worker_exists` for a URL that is there already, 400
   * `unsupported_worker` for a role that the model's engine does not have.
   */
  addWorker(access: WorkerAccess): string;
  /** Forgets a worker; requests in flight there end undisturbed. False when there is none of that id. */
  removeWorker(id: string): boolean;
  /** Starts or ends draining: a draining worker gets no new work. False when there is none of that id. */
  setDraining(id: string, draining: boolean): boolean;
  /**
   * Says that a worker's process has ended, and why: it gets no more work from now on. Without a reason: a new process
   * serves in its place. False when there is none of that id.
   */
  setDown(id: string, reason: string | undefined): boolean;
}
