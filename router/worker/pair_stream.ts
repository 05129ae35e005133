import type { Clock } from "../../base/clock.ts";
import { EngineError } from "./engine_error.ts";
import { isHandOffFailure } from "./hand_off.ts";
import type { Placement, PrefillSide } from "./placement.ts";
import { LEFT, WorkerCall, type WorkerCallOptions } from "./worker_call.ts";

/** How long a prefill server that has done its work may take to say so. */
const PREFILL_TRAILER_MS = 1_000;
/** How long a prefill that must not be aborted is waited for, before it is all the same. */
const PREFILL_FINISH_MS = 10_000;

/** Reads the answer of one half, which the call has not been opened for yet. */
export type HalfReader<T> = (call: WorkerCall, url: string) => AsyncGenerator<T, void, void>;

/** A request to both servers of a pair. */
export interface PairOptions<T> {
  readonly clock: Clock;
  readonly at: Placement & { readonly prefill: PrefillSide };
  readonly prefill: WorkerCallOptions;
  readonly decode: WorkerCallOptions;
  readonly readPrefill: HalfReader<unknown>;
  readonly readDecode: HalfReader<T>;
  /** True where a prefill that is aborted while it waits costs its server a buffer for ever (SGLang before 0.5.10). */
  readonly finishPrefill: boolean;
  /** The prefill half has answered. */
  readonly onPrefilled?: (() => void) | undefined;
}

/**
 * The events of the decode half of a request that both servers of a pair get at once. The prefill half is read beside
 * it and gates nothing; before the first event its failure is the request's, at once, and either half's failure ends
 * the other. However the iteration ends, it settles only after both servers were told.
 */
export class PairStream<T> implements AsyncIterableIterator<T, void, void> {
  readonly #options: PairOptions<T>;
  readonly #prefill: WorkerCall;
  readonly #decode: WorkerCall;
  readonly #events: AsyncGenerator<T, void, void>;
  readonly #over = new AbortController();
  #handedOff = false;

  constructor(options: PairOptions<T>) {
    this.#options = options;
    // A prefill that has to finish must not hear that the caller has gone.
    const signal = options.finishPrefill ? this.#over.signal : options.prefill.signal;
    this.#prefill = new WorkerCall({ ...options.prefill, signal });
    this.#decode = new WorkerCall(options.decode);
    this.#events = this.#run();
  }

  next(): Promise<IteratorResult<T, void>> {
    return this.#events.next();
  }

  return(): Promise<IteratorResult<T, void>> {
    this.#decode.leave(LEFT);
    if (!this.#options.finishPrefill) this.#leavePrefill();
    return this.#events.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async *#run(): AsyncGenerator<T, void, void> {
    const { at, decode, readDecode } = this.#options;
    decode.signal.throwIfAborted();
    const prefilled = this.#drainPrefill();
    let complete = false;
    try {
      for await (const event of readDecode(this.#decode, at.url)) {
        this.#handedOff = true;
        yield event;
      }
      complete = true;
    } catch (error) {
      if (error === LEFT) return;
      if (!decode.signal.aborted) this.#blame(error);
      throw error;
    } finally {
      if (complete) await this.#within(PREFILL_TRAILER_MS, prefilled);
      else if (this.#options.finishPrefill) await this.#within(PREFILL_FINISH_MS, prefilled);
      this.#leavePrefill();
      await Promise.all([this.#decode.close(), prefilled]);
    }
  }

  /** Reads the prefill half to its end. Never rejects. */
  async #drainPrefill(): Promise<void> {
    const { at, readPrefill, decode, onPrefilled } = this.#options;
    try {
      for await (const _event of readPrefill(this.#prefill, at.prefill.url));
      at.release("ok", "prefill");
      onPrefilled?.();
    } catch (error) {
      if (this.#over.signal.aborted || decode.signal.aborted) return;
      // Once decode has its first token, it needs the other half no more.
      if (this.#handedOff) at.release("failed", "prefill");
      else this.#decode.leave(error);
    } finally {
      await this.#prefill.close();
    }
  }

  #leavePrefill(): void {
    this.#over.abort(LEFT);
    this.#prefill.leave(LEFT);
  }

  /** Counts a failure against the half that it came from; against both when they failed to meet. */
  #blame(error: unknown): void {
    const { at } = this.#options;
    if (!(error instanceof EngineError) || error.status < 500 || error.status === 503) return;
    const both = isHandOffFailure(error.message);
    if (both || error.workerUrl === at.prefill.url) at.release("failed", "prefill");
    if (both || error.workerUrl !== at.prefill.url) at.release("failed", "decode");
  }

  async #within(limitMs: number, promise: Promise<void>): Promise<void> {
    const timer = new AbortController();
    const late = this.#options.clock.sleep(limitMs, timer.signal).catch(() => {});
    await Promise.race([promise, late]);
    timer.abort();
  }
}
