import type { StopSignal } from "../../base/stop_signal.ts";
import type { Clock } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { ThreadQueue } from "../shared/thread_queue.ts";
import type { Lease, LeaseHint, PlaceHint } from "./lease.ts";
import type { Claim } from "./placer.ts";
import { fullError } from "./refusals.ts";
import type { EngineError } from "../worker/engine_error.ts";
import type { CacheReport, PlacementOutcome } from "../worker/placement.ts";

/** Options of a `Gate`. */
export interface GateOptions {
  /** The model's public name. */
  readonly model: string;
  readonly clock: Clock;
  /** Takes a place. Throws `no_worker` (503), with a time after which to ask again when the workers are only full. */
  readonly place: (hint: PlaceHint) => Claim;
  /** Earliest time, in clock ms, at which an open breaker will let a probe through; undefined when none is open. */
  readonly opensAtMs?: (() => number | undefined) | undefined;
  /** Those who wait in other threads for the same workers. */
  readonly queue?: ThreadQueue | undefined;
}

/** Prompts of requests that workers have not read yet; those of warms do not count. */
export interface PromptReads {
  /** Prompts that a worker has not read yet. */
  reading(workerId: string): number;
  /** Calls the listener whenever a worker has read a prompt, or need not any more. */
  onPromptRead(listener: (workerId: string) => void): void;
}

interface Waiter {
  readonly hint: LeaseHint;
  readonly grant: (lease: Lease) => void;
  readonly refuse: (error: unknown) => void;
  /** Its turn among all threads, once it really waits. */
  turn?: number;
}

/**
 * The only way to a model's workers: relayed requests and agents' calls wait here in one queue, by priority where
 * they state one, then by arrival. It knows which workers have prompts to read, since warms have to wait for them.
 *
 * Places become free when a lease is given back, when the workers change (`wake`), and when a breaker has been open
 * for its time; each of these serves the queue, so that nothing polls. A request that avoids workers it has failed on
 * may be passed by those behind it while the workers left to it are full; nobody else is passed.
 *
 * The number of those who wait is bounded by those who ask: HTTP admission (`max_running`) lets in so many requests,
 * each of which is one relayed request, or a run with no more calls than its graph has agents.
 */
export class Gate implements PromptReads {
  readonly #options: GateOptions;
  /** In the order in which they are served. */
  readonly #waiters: Waiter[] = [];
  /** Prompts that are being read, by worker id; workers with none are absent. */
  readonly #reading = new Map<string, number>();
  readonly #readListeners = new Set<(workerId: string) => void>();
  #alarm: { readonly atMs: number; readonly off: AbortController } | undefined;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** Requests in the queue. */
  get waiting(): number {
    return this.#waiters.length;
  }

  /**
   * A place for a real prompt, which counts as being read from now on; at once if there is one and nobody is before it.
   * Rejects with `no_worker` (503) when no worker is usable, or with the signal's reason.
   */
  async lease(hint: LeaseHint, signal: StopSignal): Promise<Lease> {
    return (signal.aborted ? undefined : this.tryLease(hint)) ?? await this.#wait(hint, signal);
  }

  /** As `lease`, now or not at all: undefined where it has to be waited for. Throws what that rejects with. */
  tryLease(hint: LeaseHint): Lease | undefined {
    if (this.#waiters.length > 0 || this.#options.queue?.othersWait === true) return undefined;
    try {
      return this.#leaseForPrompt(this.#options.place(hint));
    } catch (error) {
      if (isFull(error)) return undefined;
      throw error;
    }
  }

  #wait(hint: LeaseHint, signal: StopSignal): Promise<Lease> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const onAbort = () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(signal.reason);
        this.wake();
      };
      const waiter: Waiter = {
        hint,
        grant: (lease) => {
          signal.removeEventListener("abort", onAbort);
          resolve(lease);
        },
        refuse: (error) => {
          signal.removeEventListener("abort", onAbort);
          reject(error);
        },
      };
      signal.addEventListener("abort", onAbort, { once: true });
      const before = this.#waiters.findLastIndex((other) => !isBefore(hint, other.hint));
      this.#waiters.splice(before + 1, 0, waiter);
      this.wake();
    });
  }

  /**
   * A place now or not at all, for a warm, whose prompt does not count as being read, or with `reads` for a prompt that
   * does. Throws `no_worker` (503) when no worker has room, or others wait.
   */
  leaseNow(hint: PlaceHint, { reads = false } = {}): Lease {
    const { model, place, queue } = this.#options;
    if (queue?.othersWait === true) throw fullError(model, "requests wait for a place");
    if (this.waiting > 0) throw fullError(model, `${this.waiting} requests wait for a place`);
    const claim = place(hint);
    return reads ? this.#leaseForPrompt(claim) : new ClaimLease(claim, this, false);
  }

  reading(workerId: string): number {
    return this.#reading.get(workerId) ?? 0;
  }

  onPromptRead(listener: (workerId: string) => void): void {
    this.#readListeners.add(listener);
  }

  /** Serves the queue as far as there are places. To be called when workers come, go, or change their state. */
  wake(): void {
    this.#serve();
    const { queue } = this.#options;
    if (queue !== undefined) {
      let moved = this.#showHead(queue);
      // A place that became free before the turn was shown is told to nobody.
      if (moved && this.waiting > 0) {
        this.#serve();
        moved = this.#showHead(queue) || moved;
      }
      if (moved) queue.pass();
    }
    this.#setAlarm();
  }

  #serve(): void {
    const { queue, place } = this.#options;
    for (let at = 0; at < this.#waiters.length;) {
      const waiter = this.#waiters[at]!;
      if (queue?.isFirst(waiter.turn) === false) break;
      try {
        waiter.grant(this.#leaseForPrompt(place(waiter.hint)));
      } catch (error) {
        if (isFull(error)) {
          if (!avoidsWorkers(waiter)) break;
          at++;
          continue;
        }
        waiter.refuse(error);
      }
      this.#waiters.splice(at, 1);
    }
  }

  /** Shows other threads the turn of the first one here who takes any place; true when it is another than before. */
  #showHead(queue: ThreadQueue): boolean {
    for (const waiter of this.#waiters) waiter.turn ??= queue.nextTurn();
    return queue.show(this.#waiters.find((waiter) => !avoidsWorkers(waiter))?.turn);
  }

  #leaseForPrompt(claim: Claim): Lease {
    const home = homeOf(claim);
    this.#reading.set(home, this.reading(home) + 1);
    return new ClaimLease(claim, this, true);
  }

  /** Takes a prompt off its worker's count. */
  stopReading(home: string): void {
    const left = this.reading(home) - 1;
    if (left === 0) this.#reading.delete(home);
    else this.#reading.set(home, left);
  }

  /** A worker has read a prompt, or need not any more. */
  tellRead(home: string): void {
    for (const listener of this.#readListeners) listener(home);
  }

  /** A place was given back. */
  onFree(): void {
    if (this.waiting > 0) this.wake();
    this.#options.queue?.pass();
  }

  /** Wakes the queue when the next breaker lets a probe through; such a worker has room, and no event tells of it. */
  #setAlarm(): void {
    const atMs = this.waiting === 0 ? undefined : this.#options.opensAtMs?.();
    if (atMs === this.#alarm?.atMs) return;
    this.#alarm?.off.abort();
    this.#alarm = undefined;
    if (atMs === undefined) return;
    const { clock } = this.#options;
    const alarm = this.#alarm = { atMs, off: new AbortController() };
    clock.sleep(atMs - clock.now(), alarm.off.signal).then(() => {
      if (this.#alarm === alarm) this.#alarm = undefined;
      this.wake();
    }, () => {});
  }
}

/** A claim that tells the gate when it is given back. */
class ClaimLease implements Lease {
  readonly workerId: string;
  readonly url: string;
  readonly rank: Claim["rank"];
  readonly prefill: Claim["prefill"];
  readonly home: string;
  readonly idleMs: number | undefined;
  readonly #claim: Claim;
  readonly #gate: Gate;
  /** True while its prompt counts as being read: never for a warm. */
  #reading: boolean;
  #lost: EngineError | undefined;
  #onLost: ((error: EngineError) => void) | undefined;

  constructor(claim: Claim, gate: Gate, reads: boolean) {
    this.workerId = claim.workerId;
    this.url = claim.url;
    this.rank = claim.rank;
    this.prefill = claim.prefill;
    this.home = homeOf(claim);
    this.idleMs = claim.idleMs;
    this.#claim = claim;
    this.#gate = gate;
    this.#reading = reads;
    claim.lost = (error) => {
      this.#lost ??= error;
      this.#onLost?.(error);
    };
  }

  onLost(listener: (error: EngineError) => void): void {
    this.#onLost = listener;
    if (this.#lost !== undefined) listener(this.#lost);
  }

  promptRead(found?: CacheReport): void {
    this.#claim.promptRead(found);
    if (this.#stopReading()) this.#gate.tellRead(this.home);
  }

  release(outcome: PlacementOutcome, side?: "prefill" | "decode"): void {
    const freed = this.#claim.release(outcome, side);
    const readsHere = side === undefined || (side === "prefill") === (this.prefill !== undefined);
    const read = readsHere && this.#stopReading();
    // Those who wait come before the warms.
    if (freed) this.#gate.onFree();
    if (read) this.#gate.tellRead(this.home);
  }

  #stopReading(): boolean {
    if (!this.#reading) return false;
    this.#reading = false;
    this.#gate.stopReading(this.home);
    return true;
  }
}

function avoidsWorkers({ hint }: Waiter): boolean {
  return (hint.exclude?.size ?? 0) > 0;
}

function homeOf({ workerId, prefill }: Claim): string {
  return prefill?.workerId ?? workerId;
}

function isBefore(one: LeaseHint, other: LeaseHint): boolean {
  const byPriority = (one.priority ?? 0) - (other.priority ?? 0);
  return byPriority < 0 || (byPriority === 0 && one.arrival < other.arrival);
}

/** True when the workers are in service but have no room: `no_worker` with a time after which to ask again. */
function isFull(error: unknown): boolean {
  return CanopyError.is(error) && error.code === "no_worker" && error.retryAfterSeconds !== undefined;
}
