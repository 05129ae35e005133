import type { Random } from "../../../base/random.ts";
import type { Candidate, Policy, WorkerChoice } from "./policy.ts";

/** Any candidate, all equally likely. */
export class RandomChoice implements Policy {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  choose<C extends Candidate>({ candidates }: WorkerChoice<C>): C {
    return this.#random.pick(candidates);
  }
}
