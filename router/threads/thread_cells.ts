import { CanopyError } from "../../base/errors.ts";
import { type KeyTable, SharedKeyTable } from "../shared/key_counts.ts";
import type { SharedPermits } from "../shared/shared_semaphore.ts";
import { SharedTally } from "../shared/tally.ts";
import { ThreadQueue } from "../shared/thread_queue.ts";
import { BREAKER_CELLS, PROBING } from "../pool/breaker.ts";
import type { WorkerCells } from "../pool/pool_share.ts";

/** Most workers of all models together; the memory grows with their square. */
const MAX_WORKERS = 256;
export const MAX_MODELS = 256;
/** Most API keys with limits, of all configurations since the start. */
const MAX_KEYS = 1_024;
/** Counts of a worker: in flight, taken, served, failed. */
const COUNTS = 4;
/** Cells of a worker that are nobody's part: its breaker, and answers in a row. */
const WORKER_CELLS = BREAKER_CELLS + 2;
/** Bytes of the times at which breakers opened, at the front. */
const TIMES = MAX_WORKERS * Float64Array.BYTES_PER_ELEMENT;
/** Bytes of what keys have used, behind them. */
const KEYS = SharedKeyTable.cellsOf(MAX_KEYS) * BigInt64Array.BYTES_PER_ELEMENT;
/** Places in use, requests that wait for one, and the last turn in the queues. */
const RUNNING = 0;
const QUEUED = 1;
const TURNS = 2;
const FIRST_COUNT = 3;

/** The places of a router's counts in its shared memory: totals, and each thread's part in them. */
export class ThreadCells {
  readonly #thread: number;
  readonly #threads: number;
  readonly #times: Float64Array;
  readonly #keys: BigInt64Array;
  readonly #cells: Int32Array;
  readonly #onPass: () => void;

  /** `thread`: index of this one; `onPass`: has the other threads look whether it is their turn. */
  constructor(memory: SharedArrayBuffer, options: { thread: number; threads: number; onPass: () => void }) {
    this.#thread = options.thread;
    this.#threads = options.threads;
    this.#onPass = options.onPass;
    this.#times = new Float64Array(memory, 0, MAX_WORKERS);
    this.#keys = new BigInt64Array(memory, TIMES, SharedKeyTable.cellsOf(MAX_KEYS));
    this.#cells = new Int32Array(memory, TIMES + KEYS);
  }

  /** Memory for so many threads. */
  static allocate(threads: number): SharedArrayBuffer {
    const cells = FIRST_COUNT + MAX_WORKERS * WORKER_CELLS + (MAX_MODELS + 1) * threads +
      tallies() * (threads + 1);
    return new SharedArrayBuffer(TIMES + KEYS + cells * Int32Array.BYTES_PER_ELEMENT);
  }

  /** The bounds on requests that are accepted. */
  get admission(): SharedPermits {
    const count = tallies() - 2;
    return {
      used: this.#tally(count, RUNNING),
      waiting: this.#tally(count + 1, QUEUED),
      queue: this.#queue(MAX_MODELS),
    };
  }

  /** What the holders of API keys have asked for. */
  get keys(): KeyTable {
    const first = MAX_WORKERS * COUNTS + MAX_WORKERS * MAX_WORKERS;
    return new SharedKeyTable(this.#keys, (place) => this.#tally(first + place), MAX_KEYS);
  }

  /** Those who wait for workers of a model, by its number. Throws 503 `too_many_models`. */
  queue(model: number): ThreadQueue {
    if (model < MAX_MODELS) return this.#queue(model);
    throw new CanopyError(
      `Cannot serve another model: with several threads there are at most ${MAX_MODELS}; use server.workers 1`,
      { code: "too_many_models", status: 503 },
    );
  }

  worker(slot: number): WorkerCells {
    const at = slot * COUNTS;
    const breaker = FIRST_COUNT + slot * WORKER_CELLS;
    return {
      inFlight: this.#tally(at),
      taken: this.#tally(at + 1),
      served: this.#tally(at + 2),
      failures: this.#tally(at + 3),
      inRow: this.#cells.subarray(breaker + BREAKER_CELLS, breaker + WORKER_CELLS),
      breaker: {
        counts: this.#cells.subarray(breaker, breaker + BREAKER_CELLS),
        openedAt: this.#times.subarray(slot, slot + 1),
      },
    };
  }

  handOffs(prefillSlot: number, decodeSlot: number): SharedTally {
    return this.#tally(MAX_WORKERS * COUNTS + prefillSlot * MAX_WORKERS + decodeSlot);
  }

  /** A free slot for a worker, with its counts at 0. Throws 503 `too_many_workers`. */
  takeSlot(taken: ReadonlySet<number>): number {
    for (let slot = 0; slot < MAX_WORKERS; slot++) {
      const { inFlight } = this.worker(slot);
      // One that has left may still be answering.
      if (taken.has(slot) || inFlight.value > 0) continue;
      this.#emptySlot(slot);
      return slot;
    }
    throw new CanopyError(
      `Cannot add a worker: with several threads there are at most ${MAX_WORKERS}; use server.workers 1`,
      { code: "too_many_workers", status: 503 },
    );
  }

  /** Takes back all that a thread held when it died. */
  forget(thread: number): void {
    for (let tally = 0; tally < tallies(); tally++) this.#empty(tally, thread);
    const heads = this.#firstHead + thread;
    for (let model = 0; model <= MAX_MODELS; model++) {
      Atomics.store(this.#cells, heads + model * this.#threads, 0);
    }
    // It may have had the probe of a breaker that is half open: another one is let through.
    for (let slot = 0; slot < MAX_WORKERS; slot++) {
      Atomics.store(this.#cells, FIRST_COUNT + slot * WORKER_CELLS + PROBING, 0);
    }
  }

  get #firstHead(): number {
    return FIRST_COUNT + MAX_WORKERS * WORKER_CELLS;
  }

  get #firstTally(): number {
    return this.#firstHead + (MAX_MODELS + 1) * this.#threads;
  }

  #queue(at: number): ThreadQueue {
    const heads = this.#firstHead + at * this.#threads;
    return new ThreadQueue({
      heads: this.#cells.subarray(heads, heads + this.#threads),
      turns: this.#cells.subarray(TURNS, TURNS + 1),
      thread: this.#thread,
      onPass: this.#onPass,
    });
  }

  #tally(tally: number, all = this.#firstTally + tally): SharedTally {
    return new SharedTally(this.#cells, all, this.#ownCell(tally, this.#thread));
  }

  #ownCell(tally: number, thread: number): number {
    return this.#firstTally + tallies() * (thread + 1) + tally;
  }

  #empty(tally: number, thread: number): void {
    const own = Atomics.exchange(this.#cells, this.#ownCell(tally, thread), 0);
    if (own === 0) return;
    const counts = tallies() - 2;
    const all = tally < counts ? this.#firstTally + tally : tally === counts ? RUNNING : QUEUED;
    // What it has served stays served.
    if (tally >= MAX_WORKERS * COUNTS || tally % COUNTS === 0) Atomics.sub(this.#cells, all, own);
  }

  #emptySlot(slot: number): void {
    for (let count = 0; count < COUNTS; count++) {
      const tally = slot * COUNTS + count;
      Atomics.store(this.#cells, this.#firstTally + tally, 0);
      for (let thread = 0; thread < this.#threads; thread++) {
        Atomics.store(this.#cells, this.#ownCell(tally, thread), 0);
      }
    }
    const breaker = FIRST_COUNT + slot * WORKER_CELLS;
    for (let cell = 0; cell < WORKER_CELLS; cell++) Atomics.store(this.#cells, breaker + cell, 0);
  }
}

/** Counts of all workers, of all pairs, of all keys, and the two of admission. */
function tallies(): number {
  return MAX_WORKERS * COUNTS + MAX_WORKERS * MAX_WORKERS + MAX_KEYS + 2;
}
