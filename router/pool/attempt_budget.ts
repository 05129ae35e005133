import type { Lease } from "./lease.ts";

/**
 * An attempt that got so many tokens further than those before renews the retries: a request that kills its workers
 * does not get further.
 */
const PROGRESS_TOKENS = 4;

/** Attempts of one call: how many more there may be, and on which workers not. */
export class AttemptBudget {
  readonly #retries: number;
  #left: number;
  /** Tokens of the attempt that got furthest. */
  #most = 0;
  #last: readonly string[] = [];
  readonly #avoided = new Set<string>();
  /** Workers that could not be reached; not counted the first time. */
  readonly #unreached = new Set<string>();
  /** The attempt that comes next is paid for. */
  #paid = true;

  /** `retries`: attempts in a row that may get no further. */
  constructor(retries: number) {
    this.#retries = this.#left = retries;
  }

  /** Workers that failed since the last progress. */
  get avoided(): ReadonlySet<string> {
    return this.#avoided;
  }

  /**
   * Notes a failed attempt; false when it was the last one. `unsent`: no connection could be made; `tokens`: those of
   * the answer by now.
   */
  failed(
    { workerId, prefill }: Lease,
    { unsent, tokens = 0 }: { unsent: boolean; tokens?: number },
  ): boolean {
    if (tokens >= this.#most + PROGRESS_TOKENS) {
      this.#left = this.#retries;
      this.#avoided.clear();
      this.#unreached.clear();
    }
    this.#most = Math.max(this.#most, tokens);
    this.#last = prefill === undefined ? [workerId] : [workerId, prefill.workerId];
    for (const worker of this.#last) this.#avoided.add(worker);
    // Nothing was sent: the request is not to blame. Of a pair the other half has had it.
    this.#paid = !(unsent && prefill === undefined && !this.#unreached.has(workerId));
    if (this.#paid) return this.#left-- > 0;
    this.#unreached.add(workerId);
    return true;
  }

  /** The answer goes on behind so many tokens: what comes now is further. */
  resumes(tokens: number): void {
    this.#most = tokens;
  }

  /**
   * Lets all workers be asked again but those of the last attempt; `lastToo`: those, too, where there are no others.
   * False where nobody is left to ask, or the attempt would have to be paid for and cannot be.
   */
  readmit(lastToo = false): boolean {
    const others = this.#avoided.size > this.#last.length;
    if (!others && !(lastToo && this.#avoided.size > 0)) return false;
    if (!this.#paid && this.#left-- <= 0) return false;
    this.#paid = true;
    this.#avoided.clear();
    if (others) { for (const worker of this.#last) this.#avoided.add(worker); }
    return true;
  }
}
