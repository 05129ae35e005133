/**
 * A list that only grows until it ends, with any number of readers at their own pace. Readers share the one list,
 * so a slow one costs no memory. The writer bounds the length.
 */
export class AppendLog<T> {
  readonly #items: T[] = [];
  #ended = false;
  #wakeReaders = new Set<() => void>();

  get items(): readonly T[] {
    return this.#items;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Adds an item; does nothing after the end. */
  append(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#wake();
  }

  /** Lets every reader end after the last item. */
  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** The items from index `from` on, then new ones as they come. Throws the signal's reason when it aborts. */
  async *read(signal: AbortSignal, from = 0): AsyncGenerator<T, void, undefined> {
    for (let at = from;; at++) {
      while (at >= this.#items.length) {
        if (this.#ended) return;
        await this.#changed(signal);
      }
      signal.throwIfAborted();
      yield this.#items[at]!;
    }
  }

  #changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const wake = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const onAbort = () => {
        this.#wakeReaders.delete(wake);
        reject(signal.reason);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#wakeReaders.add(wake);
    });
  }

  #wake(): void {
    if (this.#wakeReaders.size === 0) return;
    const readers = this.#wakeReaders;
    this.#wakeReaders = new Set();
    for (const wake of readers) wake();
  }
}
