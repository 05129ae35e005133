import type { Tally } from "../shared/tally.ts";
import type { ThreadQueue } from "../shared/thread_queue.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";
import type { BreakerCells } from "./breaker.ts";
import type { CheckedHealth } from "./health.ts";

/** Counts and breaker of one worker; where several threads serve, in memory that they share. */
export interface WorkerCells {
  readonly inFlight: Tally;
  /** Requests and warms that were placed here. */
  readonly taken: Tally;
  readonly served: Tally;
  readonly failures: Tally;
  /** Two: answers in a row that ended well, and that failed. */
  readonly inRow: Int32Array;
  /** Absent: memory of its own. */
  readonly breaker?: BreakerCells | undefined;
}

/** A worker as the thread that checks it tells the others. */
export interface WorkerReport {
  /** Id of its server, which all ranks of it have in common. */
  readonly server: string;
  readonly ordinal: number;
  /** Its place in the shared memory. */
  readonly slot: number;
  readonly access: WorkerAccess;
  readonly draining: boolean;
  /** True to prefer other workers until its first check. */
  readonly checkedFirst: boolean;
  readonly health: CheckedHealth;
  readonly lastError: string | undefined;
  readonly missingModel: boolean;
}

/** The part of one model's pool in a router of several threads. */
export interface PoolShare {
  /** True in the one thread that checks workers and says who is there; the others are told. */
  readonly leads: boolean;
  /** Index of the thread; 0 is the one that leads. */
  readonly thread: number;
  /** Order of those who wait for a place. */
  readonly queue: ThreadQueue;
  /** A free place in the shared memory. Throws 503 `too_many_workers`. */
  takeSlot(): number;
  /** The worker at this slot has left. */
  leaveSlot(slot: number): void;
  worker(slot: number): WorkerCells;
  /** Requests of a pair in their hand-off. */
  handOffs(prefillSlot: number, decodeSlot: number): Tally;
  /** Tells the other threads who is there and how they are. Only where it leads. */
  changed(members: readonly WorkerReport[]): void;
  /** A request to a worker failed here: its check is due. Only where it does not lead. */
  poke(workerId: string): void;
}
