/** Remembers which worker a key went to; the least recently used keys are forgotten first. */
export class StickyKeys {
  readonly #capacity: number;
  readonly #workers = new Map<string, string>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#workers.size;
  }

  get(key: string): string | undefined {
    const workerId = this.#workers.get(key);
    if (workerId === undefined) return undefined;
    this.#workers.delete(key);
    this.#workers.set(key, workerId);
    return workerId;
  }

  set(key: string, workerId: string): void {
    this.#workers.delete(key);
    this.#workers.set(key, workerId);
    if (this.#workers.size <= this.#capacity) return;
    for (const oldest of this.#workers.keys()) {
      this.#workers.delete(oldest);
      break;
    }
  }
}
