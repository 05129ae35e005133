import type { StopSignal } from "../../base/stop_signal.ts";
import type { Tally } from "./tally.ts";
import type { ThreadQueue } from "./thread_queue.ts";

/** Permits that are handed out, and a queue for them. */
export interface Permits {
  readonly permits: number;
  readonly maxWaiting: number;
  readonly inUse: number;
  readonly waiting: number;
  /**
   * Takes one permit; the returned function gives it back (calling it twice is harmless). Rejects when too many wait
   * already, or with the signal's reason.
   */
  acquire(signal?: StopSignal): Promise<() => void>;
  /** Takes one permit if one is free now and nobody waits for it. */
  tryAcquire(): (() => void) | undefined;
  /** Changes the bounds. */
  resize(bounds: { readonly permits: number; readonly maxWaiting: number }): void;
  /** Something was given back where this does not see it. */
  wake?(): void;
}

/** Memory of a `SharedSemaphore`. */
export interface SharedPermits {
  readonly used: Tally;
  readonly waiting: Tally;
  readonly queue: ThreadQueue;
}

interface Waiter {
  readonly turn: number;
  readonly grant: () => void;
}

/** Permits of several threads together: as many in all, in one order, with one bound on those who wait. */
export class SharedSemaphore implements Permits {
  #permits: number;
  #maxWaiting: number;
  readonly #shared: SharedPermits;
  readonly #full: (semaphore: Permits) => unknown;
  #waiters: Waiter[] = [];

  /** `full`: makes the error of a caller for whom there is neither a permit nor room in the queue. */
  constructor(shared: SharedPermits, options: {
    readonly permits: number;
    readonly maxWaiting: number;
    readonly full: (semaphore: Permits) => unknown;
  }) {
    this.#permits = options.permits;
    this.#maxWaiting = options.maxWaiting;
    this.#full = options.full;
    this.#shared = shared;
  }

  get permits(): number {
    return this.#permits;
  }

  get maxWaiting(): number {
    return this.#maxWaiting;
  }

  get inUse(): number {
    return this.#shared.used.value;
  }

  get waiting(): number {
    return this.#shared.waiting.value;
  }

  acquire(signal?: StopSignal): Promise<() => void> {
    const { waiting, queue } = this.#shared;
    if (signal?.aborted) return Promise.reject(signal.reason);
    const release = this.tryAcquire();
    if (release !== undefined) return Promise.resolve(release);
    if (!waiting.tryAdd(this.#maxWaiting)) return Promise.reject(this.#full(this));
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        waiting.add(-1);
        reject(signal?.reason);
        this.#serve();
      };
      const waiter: Waiter = {
        turn: queue.nextTurn(),
        grant: () => {
          signal?.removeEventListener("abort", onAbort);
          waiting.add(-1);
          resolve(this.#release());
        },
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiters.push(waiter);
      queue.show(this.#waiters[0]!.turn);
      // A permit that was given back before the turn was shown is told to nobody.
      this.#serve();
    });
  }

  tryAcquire(): (() => void) | undefined {
    const { used, queue } = this.#shared;
    if (this.#waiters.length > 0 || queue.othersWait || !used.tryAdd(this.#permits)) return undefined;
    return this.#release();
  }

  resize({ permits, maxWaiting }: { readonly permits: number; readonly maxWaiting: number }): void {
    this.#permits = permits;
    this.#maxWaiting = maxWaiting;
    this.#serve();
  }

  wake(): void {
    this.#serve();
  }

  #serve(): void {
    const { used, queue } = this.#shared;
    for (let next = this.#waiters[0]; next !== undefined; next = this.#waiters[0]) {
      if (!queue.isFirst(next.turn) || !used.tryAdd(this.#permits)) break;
      this.#waiters.shift();
      next.grant();
    }
    if (queue.show(this.#waiters[0]?.turn)) queue.pass();
  }

  #release(): () => void {
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#shared.used.add(-1);
      this.#serve();
      this.#shared.queue.pass();
    };
  }
}
