/** What ends work early, as those see it who do the work: every `AbortSignal` is one. */
export interface StopSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void, options?: { readonly once: true }): void;
  removeEventListener(type: "abort", listener: () => void): void;
  throwIfAborted(): void;
}

/**
 * Signal and controller in one, for work of which there is much: to the runtimes an `AbortSignal` is an object of the
 * page, with listeners of its own kind, and each is looked at by every collection.
 */
export class Stopper implements StopSignal {
  #aborted = false;
  #reason: unknown;
  #controller: AbortController | undefined;
  readonly #listeners: (() => void)[] = [];

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  /** The same for those who need the runtime's own kind, which costs more; made when it is asked for. */
  get signal(): AbortSignal {
    const controller = this.#controller ??= new AbortController();
    if (this.#aborted) controller.abort(this.#reason);
    return controller.signal;
  }

  /** Tells the listeners, in the order in which they came; the second call does nothing. */
  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    for (const listener of this.#listeners.splice(0)) listener();
    this.#controller?.abort(reason);
  }

  addEventListener(_type: "abort", listener: () => void): void {
    if (!this.#aborted) this.#listeners.push(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    const listeners = this.#listeners;
    // Who came last mostly goes first.
    const at = listeners.lastIndexOf(listener);
    if (at < 0) return;
    if (at === listeners.length - 1) listeners.pop();
    else listeners.splice(at, 1);
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }
}

/** A promise's outcome, or the signal's reason as soon as that aborts; nobody hears of a rejection after that. */
export async function unlessAborted<Value>(promise: Promise<Value>, signal: StopSignal): Promise<Value> {
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
