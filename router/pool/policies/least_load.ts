import { type Candidate, idlestOf, nextInRotation, type Policy, type WorkerChoice } from "./policy.ts";

/** A candidate with the fewest requests in flight; ties go round, so that no idle worker starves. */
export class LeastLoad implements Policy {
  #lastOrdinal: number;

  /** `lastOrdinal`: where the rotation starts; several routers before the same workers should not start alike. */
  constructor(lastOrdinal: number) {
    this.#lastOrdinal = lastOrdinal;
  }

  choose<C extends Candidate>({ candidates }: WorkerChoice<C>): C {
    const chosen = nextInRotation(idlestOf(candidates), this.#lastOrdinal);
    this.#lastOrdinal = chosen.ordinal;
    return chosen;
  }
}
