import type { StopSignal } from "../../../base/stop_signal.ts";
import { type Clock, deadlineSignal } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { Semaphore } from "../../../base/semaphore.ts";
import { type Permits, type SharedPermits, SharedSemaphore } from "../../shared/shared_semaphore.ts";

/** Bounds on the requests that are accepted. */
export interface AdmissionBounds {
  /** Runs and relayed requests at once. */
  readonly maxRunning: number;
  /** Requests that may wait for a place; more get 429. */
  readonly maxQueued: number;
  /** Longest wait for a place, in ms; then 503. */
  readonly queueTimeoutMs: number;
}

/** Options of an `Admission`. */
export interface AdmissionOptions extends AdmissionBounds {
  readonly clock: Clock;
  /** Where the bounds are those of several threads together. */
  readonly shared?: SharedPermits | undefined;
}

/** Hands out places to runs and relayed requests, first come first served, with a bounded queue. */
export class Admission {
  readonly #clock: Clock;
  #queueTimeoutMs: number;
  readonly #places: Permits;
  /** Requests that got a place, and those that were turned away. */
  readonly counts = { allowed: 0, rejected: 0 };

  constructor(options: AdmissionOptions) {
    const { shared } = options;
    this.#clock = options.clock;
    this.#queueTimeoutMs = options.queueTimeoutMs;
    const bounds = { permits: options.maxRunning, maxWaiting: options.maxQueued, full: queueFull };
    this.#places = shared === undefined ? new Semaphore(bounds) : new SharedSemaphore(shared, bounds);
  }

  /** Changes the bounds; those who wait keep their time limit. */
  reconfigure({ maxRunning, maxQueued, queueTimeoutMs }: AdmissionBounds): void {
    this.#queueTimeoutMs = queueTimeoutMs;
    this.#places.resize({ permits: maxRunning, maxWaiting: maxQueued });
  }

  get running(): number {
    return this.#places.inUse;
  }

  get waiting(): number {
    return this.#places.waiting;
  }

  /**
   * Takes a place; the returned function gives it back. Throws `queue_full` (429), `queue_timeout` (503), or the
   * signal's reason: a client that leaves frees its place in the queue.
   */
  async take(signal: StopSignal): Promise<() => void> {
    const places = this.#places;
    signal.throwIfAborted();
    // A free place may be another thread's turn: then it is waited for, and no longer than the queue allows.
    const free = this.tryTake();
    if (free !== undefined) return free;
    const queueTimeoutMs = this.#queueTimeoutMs;
    const timeout = new CanopyError(
      `The request waited ${queueTimeoutMs} ms for a place: ${places.permits} are running, try again later`,
      { code: "queue_timeout", status: 503, retryAfterSeconds: 5 },
    );
    const deadline = deadlineSignal(this.#clock, queueTimeoutMs, timeout, signal);
    try {
      const release = await places.acquire(deadline.signal);
      this.counts.allowed++;
      return release;
    } catch (error) {
      if (!signal.aborted) this.counts.rejected++;
      throw error;
    } finally {
      deadline.release();
    }
  }

  /** Another thread may have given a place back. */
  wake(): void {
    this.#places.wake?.();
  }

  /** Takes a place only if one is free and nobody waits for it. */
  tryTake(): (() => void) | undefined {
    const release = this.#places.tryAcquire();
    if (release !== undefined) this.counts.allowed++;
    return release;
  }
}

function queueFull({ permits, maxWaiting }: Permits): CanopyError {
  return new CanopyError(
    `Cannot queue the request: ${permits} are running and ${maxWaiting} are waiting; try again later`,
    { code: "queue_full", status: 429, retryAfterSeconds: 1 },
  );
}

/** Admission with the bounds of a configuration. */
export function admissionOf(server: Config["server"], clock: Clock, shared?: SharedPermits): Admission {
  return new Admission({ clock, shared, ...admissionBounds(server) });
}

/** The bounds of a configuration. */
export function admissionBounds(server: Config["server"]): AdmissionBounds {
  return {
    maxRunning: server.max_running,
    maxQueued: server.max_queued,
    queueTimeoutMs: server.queue_timeout_ms,
  };
}
