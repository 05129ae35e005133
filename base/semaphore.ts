/** A counted resource with a bounded, fair (first come, first served) queue of waiters. */
export class Semaphore {
  readonly permits: number;
  readonly maxWaiting: number;
  readonly #full: (semaphore: Semaphore) => unknown;
  #free: number;
  #waiters: { grant: () => void }[] = [];

  /** `full`: makes the error of a caller for whom there is neither a permit nor room in the queue. */
  constructor(options: {
    readonly permits: number;
    readonly maxWaiting: number;
    readonly full: (semaphore: Semaphore) => unknown;
  }) {
    if (!(options.permits >= 1)) {
      throw new RangeError(
        `Cannot make a semaphore: permits must be at least 1: current value is ${options.permits}`,
      );
    }
    this.permits = options.permits;
    this.maxWaiting = options.maxWaiting;
    this.#full = options.full;
    this.#free = options.permits;
  }

  get inUse(): number {
    return this.permits - this.#free;
  }

  get waiting(): number {
    return this.#waiters.length;
  }

  /**
   * Takes one permit; the returned function gives it back (calling it twice is harmless).
   * Rejects with the error that `full` makes when `maxWaiting` others wait already, or with the signal's reason.
   */
  acquire(signal?: AbortSignal): Promise<() => void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#free > 0) {
      this.#free--;
      return Promise.resolve(this.#release());
    }
    if (this.#waiters.length >= this.maxWaiting) {
      return Promise.reject(
        this.#full(this),
      );
    }
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

  #release(): () => void {
    let released = false;
    return () => {
      if (released) return;
      released = true;
      const next = this.#waiters.shift();
      if (next !== undefined) next.grant();
      else this.#free++;
    };
  }
}
