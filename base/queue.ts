/**
 * A bounded queue between one or more producers and one consumer.
 * `push` waits while the queue is full (backpressure); iteration ends after `close`, or throws after `fail`.
 */
export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly capacity: number;
  #items: T[] = [];
  #head = 0;
  #closed = false;
  #failed = false;
  #failure: unknown = undefined;
  #reader: { resolve: (result: IteratorResult<T>) => void; reject: (error: unknown) => void } | undefined;
  #writers: { item: T; resolve: () => void; reject: (error: unknown) => void }[] = [];

  constructor(capacity: number) {
    if (!Number.isInteger(capacity) || capacity < 1) {
      throw new RangeError(
        `Cannot make a queue: capacity must be a positive integer: current value is ${capacity}`,
      );
    }
    this.capacity = capacity;
  }

  /** Items that wait for the consumer. */
  get size(): number {
    return this.#items.length - this.#head;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Adds an item if there is room; false when full or closed. */
  tryPush(item: T): boolean {
    if (this.#closed) return false;
    if (this.#reader !== undefined) {
      const reader = this.#reader;
      this.#reader = undefined;
      reader.resolve({ done: false, value: item });
      return true;
    }
    if (this.size >= this.capacity) return false;
    this.#items.push(item);
    return true;
  }

  /** Adds an item, where there is no room, too; nothing happens once the queue is closed. */
  add(item: T): void {
    if (!this.tryPush(item) && !this.#closed) this.#items.push(item);
  }

  /** Adds an item, waiting for room. Rejects when the queue closes or the signal aborts first. */
  push(item: T, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#closed) return Promise.reject(new Error("Cannot push: the queue is closed"));
    if (this.#writers.length === 0 && this.tryPush(item)) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#writers = this.#writers.filter((other) => other !== writer);
        reject(signal?.reason);
      };
      const writer = {
        item,
        resolve: () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
        reject: (error: unknown) => {
          signal?.removeEventListener("abort", onAbort);
          reject(error);
        },
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#writers.push(writer);
    });
  }

  /** Ends the queue: what is in it can still be read; waiting producers are rejected. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#end(new Error("Cannot push: the queue is closed"));
  }

  /** Ends the queue with an error that the consumer gets after the items already in it. */
  fail(error: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#failed = true;
    this.#failure = error;
    this.#end(error);
  }

  /** The next item; `done` after the end. One call at a time. */
  next(): Promise<IteratorResult<T>> {
    if (this.size > 0) {
      const value = this.#items[this.#head]!;
      this.#head++;
      if (this.size === 0 || (this.#head > 64 && this.#head * 2 > this.#items.length)) {
        this.#items.splice(0, this.#head);
        this.#head = 0;
      }
      this.#admitWriter();
      return Promise.resolve({ done: false, value });
    }
    if (this.#failed) {
      this.#failed = false;
      return Promise.reject(this.#failure);
    }
    if (this.#closed) return Promise.resolve({ done: true, value: undefined });
    if (this.#reader !== undefined) return Promise.reject(new Error("Cannot read: another read is waiting"));
    return new Promise((resolve, reject) => this.#reader = { resolve, reject });
  }

  /** Ends the queue from the consumer's side: drops its items and refuses more. */
  cancel(): void {
    this.#items = [];
    this.#head = 0;
    this.#failed = false;
    this.#failure = undefined;
    this.close();
  }

  [Symbol.asyncIterator](): AsyncIterator<T> {
    return {
      next: () => this.next(),
      return: () => {
        this.cancel();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  #admitWriter(): void {
    const writer = this.#writers.shift();
    if (writer === undefined) return;
    this.#items.push(writer.item);
    writer.resolve();
  }

  #end(error: unknown): void {
    const writers = this.#writers;
    this.#writers = [];
    for (const writer of writers) writer.reject(error);
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader === undefined) return;
    if (this.#failed) {
      this.#failed = false;
      reader.reject(this.#failure);
    } else reader.resolve({ done: true, value: undefined });
  }
}
