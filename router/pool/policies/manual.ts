import type { CacheReport } from "../../worker/placement.ts";
import type { Candidate, Policy, PolicyRequest, WorkerChoice } from "./policy.ts";

const MAX_KEYS = 65_536;

/**
 * Sticky keys: an equal key gets an equal worker as long as that one is usable. When it is only full for the moment, it
 * stays the key's home: its prefix cache is there. New keys, and requests without one, go where `first` sends them; the
 * least recently used keys are forgotten first.
 */
export class Manual implements Policy {
  readonly #first: Policy;
  readonly #capacity: number;
  /** Ordinals by key. */
  readonly #homes = new Map<string, number>();

  constructor(first: Policy, capacity = MAX_KEYS) {
    this.#first = first;
    this.#capacity = capacity;
  }

  /** Keys that are remembered. */
  get size(): number {
    return this.#homes.size;
  }

  choose<C extends Candidate>(choice: WorkerChoice<C>, request: PolicyRequest): C {
    const { stickyKey } = request;
    if (stickyKey === undefined) return this.#first.choose(choice, request);
    const ordinal = this.#homes.get(stickyKey);
    const isHome = (candidate: C) => candidate.ordinal === ordinal;
    const home = choice.usable.find(isHome);
    if (home === undefined) {
      const chosen = this.#first.choose(choice, request);
      this.#remember(stickyKey, chosen.ordinal);
      return chosen;
    }
    this.#remember(stickyKey, home.ordinal);
    return choice.candidates.find(isHome) ?? this.#first.choose(choice, request);
  }

  promptRead(ordinal: number, request: PolicyRequest, found: CacheReport | undefined): void {
    this.#first.promptRead?.(ordinal, request, found);
  }

  #remember(key: string, ordinal: number): void {
    this.#homes.delete(key);
    this.#homes.set(key, ordinal);
    if (this.#homes.size <= this.#capacity) return;
    for (const oldest of this.#homes.keys()) {
      this.#homes.delete(oldest);
      break;
    }
  }
}
