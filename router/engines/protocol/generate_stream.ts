import type { GenerateEvent } from "../engine.ts";
import { LEFT, type UpstreamCall } from "../../worker/upstream_call.ts";

const ENDED: IteratorReturnResult<void> = { done: true, value: undefined };

/** One generation: the call, and the events that are read from it. */
export interface GenerateStreamOptions {
  readonly call: UpstreamCall;
  /** Opens the call and reads its answer. */
  readonly events: AsyncGenerator<GenerateEvent, void, void>;
  /** The caller's signal. */
  readonly signal: AbortSignal;
  /** Called with an error that is the call's own, before the call is closed. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/**
 * The events of one call. When the signal aborts or the iteration is ended early, a read in progress is interrupted;
 * either settles only after the engine was told to stop.
 */
export class GenerateStream implements AsyncIterableIterator<GenerateEvent, void, void> {
  readonly #options: GenerateStreamOptions;
  readonly #onAbort = () => void this.#options.call.stop(this.#options.signal.reason);
  #begun = false;

  constructor(options: GenerateStreamOptions) {
    this.#options = options;
  }

  // By hand, because an async generator that delegates to another one costs several turns per event.
  async next(): Promise<IteratorResult<GenerateEvent, void>> {
    const { events, signal, onError } = this.#options;
    let result: IteratorResult<GenerateEvent, void> = ENDED;
    try {
      if (!this.#begun) this.#begin();
      result = await events.next();
    } catch (error) {
      if (error !== LEFT) {
        if (!signal.aborted) onError?.(error);
        throw error;
      }
    } finally {
      if (result.done === true) await this.#close();
    }
    return result;
  }

  async return(): Promise<IteratorResult<GenerateEvent, void>> {
    const stopped = this.#options.call.stop(LEFT);
    await this.#options.events.return();
    await stopped;
    await this.#close();
    return ENDED;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #begin(): void {
    const { signal } = this.#options;
    this.#begun = true;
    signal.throwIfAborted();
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  async #close(): Promise<void> {
    const { call, signal } = this.#options;
    signal.removeEventListener("abort", this.#onAbort);
    await call.close();
  }
}
