/** Options of a `ThreadQueue`. */
export interface ThreadQueueOptions {
  /** A cell for each thread: the turn of its first waiter, 0 when nobody waits there. */
  readonly heads: Int32Array;
  /** One cell: the last turn that was given. */
  readonly turns: Int32Array;
  /** This thread's index in `heads`. */
  readonly thread: number;
  /** Has the other threads look whether it is their turn. */
  readonly onPass: () => void;
}

/**
 * The order of those who wait for the same places in several threads. Each thread keeps its own waiters, and shows the
 * turn of the first one: a place that becomes free anywhere is for the oldest.
 */
export class ThreadQueue {
  readonly #options: ThreadQueueOptions;
  #head = 0;

  constructor(options: ThreadQueueOptions) {
    this.#options = options;
  }

  /** A turn for one who begins to wait. */
  nextTurn(): number {
    const turn = Atomics.add(this.#options.turns, 0, 1) + 1 | 0;
    return turn === 0 ? this.nextTurn() : turn;
  }

  /** True when somebody waits in another thread. */
  get othersWait(): boolean {
    return this.#others((head) => head !== 0);
  }

  /** True when nobody in another thread has waited for longer; without a turn: when nobody waits there. */
  isFirst(turn: number | undefined): boolean {
    // Turns wrap round after 2^32: their distance does not.
    return !this.#others((head) => head !== 0 && (turn === undefined || (head - turn | 0) < 0));
  }

  /** Shows the turn of this thread's first waiter; true when it is another than before. */
  show(turn: number | undefined): boolean {
    const { heads, thread } = this.#options;
    const head = turn ?? 0;
    if (head === this.#head) return false;
    this.#head = head;
    Atomics.store(heads, thread, head);
    return true;
  }

  /** A place may be free that is another thread's turn. */
  pass(): void {
    if (this.othersWait) this.#options.onPass();
  }

  #others(test: (head: number) => boolean): boolean {
    const { heads, thread } = this.#options;
    for (let at = 0; at < heads.length; at++) {
      if (at !== thread && test(Atomics.load(heads, at))) return true;
    }
    return false;
  }
}
