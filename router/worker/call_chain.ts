import type { GenerateEvent } from "../engines/engine.ts";
import { LEFT, WorkerCall, type WorkerCallOptions } from "./worker_call.ts";

/**
 * Calls to several workers, one after another, that end together: leaving the chain interrupts the call under way
 * and lets no other begin.
 */
export class CallChain {
  #call: WorkerCall | undefined;
  #left: { readonly reason: unknown } | undefined;

  /** Makes one call and uses it; it is closed afterwards. Throws what `work` throws, or the reason the chain was left for. */
  async use<T>(options: WorkerCallOptions, work: (call: WorkerCall) => Promise<T>): Promise<T> {
    const call = this.#begin(options);
    try {
      return await work(call);
    } finally {
      await call.close();
    }
  }

  /** Makes one call and reads it into events; it is closed afterwards. */
  async *read<T>(
    options: WorkerCallOptions,
    reader: (call: WorkerCall) => AsyncGenerator<T, void, void>,
  ): AsyncGenerator<T, void, void> {
    const call = this.#begin(options);
    try {
      yield* reader(call);
    } finally {
      await call.close();
    }
  }

  /** Gives all up: a read in progress rejects with `reason` at once. */
  leave(reason: unknown): void {
    this.#left ??= { reason };
    this.#call?.leave(reason);
  }

  #begin(options: WorkerCallOptions): WorkerCall {
    if (this.#left !== undefined) throw this.#left.reason;
    return this.#call = new WorkerCall(options);
  }
}

/**
 * The events of a chain of calls. Ending the iteration early interrupts the call in progress, and settles only after
 * its engine was told to stop.
 */
export class ChainStream implements AsyncIterableIterator<GenerateEvent, void, void> {
  readonly #chain = new CallChain();
  readonly #events: AsyncGenerator<GenerateEvent, void, void>;

  constructor(run: (chain: CallChain) => AsyncGenerator<GenerateEvent, void, void>) {
    this.#events = untilLeft(run(this.#chain));
  }

  next(): Promise<IteratorResult<GenerateEvent, void>> {
    return this.#events.next();
  }

  return(): Promise<IteratorResult<GenerateEvent, void>> {
    this.#chain.leave(LEFT);
    return this.#events.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

async function* untilLeft<T>(events: AsyncGenerator<T, void, void>): AsyncGenerator<T, void, void> {
  try {
    yield* events;
  } catch (error) {
    if (error !== LEFT) throw error;
  }
}
