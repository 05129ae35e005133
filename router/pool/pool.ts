import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { Gate } from "./gate.ts";
import type { WorkerReport } from "./pool_share.ts";
import type { WorkerStatus } from "./worker.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";

/** The workers of one model. */
export interface Pool {
  readonly model: string;
  /** The way to a place on one of them. */
  readonly gate: Gate;
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
   * Adds a worker and returns its id; with `checkedFirst` the others are preferred until its first check. Throws 409 `worker_exists` for a URL that is there already, 400
   * `unsupported_worker` for a role that the model's engine does not have.
   */
  addWorker(access: WorkerAccess, checkedFirst?: boolean): string;
  /**
   * Goes on by other settings of the same engine. The configured workers that differ from those of the settings before
   * leave and join; those that joined otherwise stay. Throws as `createPool` does, before anything has changed.
   */
  reconfigure(config: ModelConfig): void;
  /** Addresses and keys of the servers. */
  accesses(): readonly WorkerAccess[];
  /**
   * Makes each of the `size` data-parallel ranks of the server at a URL a place of its own (of one: the server); gives
   * the ids. What is in flight there ends undisturbed.
   */
  spread(url: string, size: number): readonly string[];
  /** Forgets a worker; requests in flight there end undisturbed. False when there is none of that id. */
  removeWorker(id: string): boolean;
  /** Starts or ends draining: a draining worker gets no new work. False when there is none of that id. */
  setDraining(id: string, draining: boolean): boolean;
  /**
   * Says that a worker's process has ended, and why: it gets no more work from now on. Without a reason: a new process
   * serves in its place. False when there is none of that id.
   */
  setDown(id: string, reason: string | undefined): boolean;
  /** Takes over who is there and how they are, from the thread that checks them. */
  follow(members: readonly WorkerReport[]): void;
  /** A request to the worker failed in another thread: its check is due. */
  poke(id: string): void;
}
