import type { GenerateEvent } from "../engines/engine.ts";
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
    this.#events = read(this.#call);
  }

  // By hand, because an async generator that delegates to another one costs several turns per event.
  async next(): Promise<IteratorResult<GenerateEvent, void>> {
    let result: IteratorResult<GenerateEvent, void> = ended;
    try {
      result = await this.#events.next();
    } catch (error) {
      if (error !== LEFT) throw error;
    } finally {
      if (result.done === true) await this.#call.close();
    }
    return result;
  }

  async return(): Promise<IteratorResult<GenerateEvent, void>> {
    this.#call.leave(LEFT);
    await this.#events.return();
    await this.#call.close();
    return ended;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

const ended: IteratorReturnResult<void> = { done: true, value: undefined };
