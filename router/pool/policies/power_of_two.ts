import type { Random } from "../../../base/random.ts";
import type { Candidate, Policy, WorkerChoice } from "./policy.ts";

/** The one with less in flight of two candidates drawn at random (Mitzenmacher 2001). */
export class PowerOfTwo implements Policy {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  choose<C extends Candidate>({ candidates }: WorkerChoice<C>): C {
    const first = this.#random.int(candidates.length);
    const one = candidates[first]!;
    if (candidates.length === 1) return one;
    const second = this.#random.int(candidates.length - 1);
    const other = candidates[second < first ? second : second + 1]!;
    return other.inFlight < one.inFlight ? other : one;
  }
}
