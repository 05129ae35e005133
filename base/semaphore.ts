import type { StopSignal } from "./stop_signal.ts";

/** A counted resource with a bounded, fair (first come, first served) queue of waiters. */
export class Semaphore {
  readonly #full: (semaphore: Semaphore) => unknown;
  #permits = 0;
  #maxWaiting = 0;
  #inUse = 0;
  #waiters: { grant: () => void }[] = [];

  /** `full`: makes the error of a caller for whom there is neither a permit nor room in the queue. */
  constructor(options: {
    readonly permits: number;
    readonly maxWaiting: number;
    readonly full: (semaphore: Semaphore) => unknown;
  }) {
    this.#full = options.full;
    this.resize(options);
  }

  get permits(): number {
    return this.#permits;
  }

  get maxWaiting(): number {
    return this.#maxWaiting;
  }

  get inUse(): number {
    return this.#inUse;
  }

  get waiting(): number {
    return this.#waiters.length;
  }

  /** Changes the bounds: more permits go to those who wait; with fewer, what is in use is given back first. */
  resize({ permits, maxWaiting }: { readonly permits: number; readonly maxWaiting: number }): void {
    if (!(permits >= 1)) {
      throw new RangeError(
        `Cannot make a semaphore: permits must be at least 1: current value is ${permits}`,
      );
    }
    this.#permits = permits;
    this.#maxWaiting = maxWaiting;
    this.#grant();
  }

  /**
   * Takes one permit; the returned function gives it back (calling it twice is harmless).
   * Rejects with the error that `full` makes when `maxWaiting` others wait already, or with the signal's reason.
   */
  acquire(signal?: StopSignal): Promise<() => void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const release = this.tryAcquire();
    if (release !== undefined) return Promise.resolve(release);
    if (this.#waiters.length >= this.#maxWaiting) return Promise.reject(this.#full(this));
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        reject(signal?.reason);
      };
      const waiter = {
        grant: () => {
          signal?.removeEventListener("abort", onAbort);
          resolve(this.#release());
        },
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiters.push(waiter);
    });
  }

  /** Takes one permit if one is free now: those who wait have got theirs. */
  tryAcquire(): (() => void) | undefined {
    if (this.#inUse >= this.#permits) return undefined;
    this.#inUse++;
    return this.#release();
  }

  #release(): () => void {
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#inUse--;
      this.#grant();
    };
  }

  #grant(): void {
    while (this.#inUse < this.#permits && this.#waiters.length > 0) {
      this.#inUse++;
      this.#waiters.shift()!.grant();
    }
  }
}
