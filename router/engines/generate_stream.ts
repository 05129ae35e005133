import type { GenerateEvent } from "./engine.ts";
import { LEFT, WorkerCall, type WorkerCallOptions } from "./worker_call.ts";

/** Reads the answer of an opened call into events; the call is closed afterwards. */
export type CallReader = (call: WorkerCall) => AsyncGenerator<GenerateEvent, void, void>;

/**
 * The events of one call. Ending the iteration early interrupts a read in progress, and settles only after the
 * engine was told to stop.
 */
export class GenerateStream implements AsyncIterableIterator<GenerateEvent, void, void> {
  readonly #call: WorkerCall;
  readonly #events: AsyncGenerator<GenerateEvent, void, void>;

  constructor(options: WorkerCallOptions, read: CallReader) {
    this.#call = new WorkerCall(options);
    this.#events = run(this.#call, read);
  }

  next(): Promise<IteratorResult<GenerateEvent, void>> {
    return this.#events.next();
  }

  return(): Promise<IteratorResult<GenerateEvent, void>> {
    this.#call.leave(LEFT);
    return this.#events.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

async function* run(call: WorkerCall, read: CallReader): AsyncGenerator<GenerateEvent, void, void> {
  try {
    yield* read(call);
  } catch (error) {
    if (error !== LEFT) throw error;
  } finally {
    await call.close();
  }
}
