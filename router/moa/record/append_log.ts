import { Notify } from "../../../base/notify.ts";

/**
 * A list that only grows until it ends, with any number of readers at their own pace. Readers share the one list,
 * so a slow one costs no memory. The writer bounds the length.
 */
export class AppendLog<T> {
  readonly #items: T[] = [];
  #ended = false;
  readonly #changed = new Notify();

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
    this.#changed.wakeAll();
  }

  /** Lets every reader end after the last item. */
  end(): void {
    this.#ended = true;
    this.#changed.wakeAll();
  }

  /** The items from index `from` on, then new ones as they come. Throws the signal's reason when it aborts. */
  async *read(signal: AbortSignal, from = 0): AsyncGenerator<T, void, undefined> {
    for (let at = from;; at++) {
      while (at >= this.#items.length) {
        if (this.#ended) return;
        await this.#changed.wait(signal);
      }
      signal.throwIfAborted();
      yield this.#items[at]!;
    }
  }
}
