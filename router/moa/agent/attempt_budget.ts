import type { Lease } from "../../pool/lease.ts";
import type { EngineError } from "../../worker/engine_error.ts";

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

  /** `retries`: attempts in a row that may get no further. */
  constructor(retries: number) {
    this.#retries = this.#left = retries;
  }

  /** Workers that failed since the last progress. */
  get avoided(): ReadonlySet<string> {
    return this.#avoided;
  }

  /** Notes a failed attempt after which the answer has so many tokens; false when it was the last one. */
  failed({ workerId, prefill }: Lease, { code }: EngineError, tokens: number): boolean {
    if (tokens >= this.#most + PROGRESS_TOKENS) {
      this.#left = this.#retries;
      this.#avoided.clear();
      this.#unreached.clear();
    }
    this.#most = Math.max(this.#most, tokens);
    this.#last = prefill === undefined ? [workerId] : [workerId, prefill.workerId];
    for (const worker of this.#last) this.#avoided.add(worker);
    // Nothing was sent: the request is not to blame. Of a pair the other half has had it.
    if (code === "worker_unreachable" && prefill === undefined && !this.#unreached.has(workerId)) {
      this.#unreached.add(workerId);
      return true;
    }
    return this.#left-- > 0;
  }

  /** The answer goes on behind so many tokens: what comes now is further. */
  resumes(tokens: number): void {
    this.#most = tokens;
  }

  /** Lets all workers be asked again but those of the last attempt; false where there are no others. */
  readmit(): boolean {
    if (this.#avoided.size <= this.#last.length) return false;
    this.#avoided.clear();
    for (const worker of this.#last) this.#avoided.add(worker);
    return true;
  }
}
