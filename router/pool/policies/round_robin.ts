import { type Candidate, nextInRotation, type Policy, type WorkerChoice } from "./policy.ts";

/** Each candidate in turn, whatever its load. */
export class RoundRobin implements Policy {
  #lastOrdinal: number;

  /** `lastOrdinal`: where the rotation starts; several routers before the same workers should not start alike. */
  constructor(lastOrdinal: number) {
    this.#lastOrdinal = lastOrdinal;
  }

  choose<C extends Candidate>({ candidates }: WorkerChoice<C>): C {
    const chosen = nextInRotation(candidates, this.#lastOrdinal);
    this.#lastOrdinal = chosen.ordinal;
    return chosen;
  }
}
