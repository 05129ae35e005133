import type { Candidate, Policy, PolicyRequest, WorkerChoice } from "./policy.ts";
import { highestRanked } from "./rendezvous.ts";

/** Bytes of a prompt that decide; some 256 tokens. */
const KEY_BYTES = 1_024;
/** A worker is passed over when it has more than this times the mean in flight, and so many more than the mean. */
const MAX_LOAD = { times: 1.25, more: 2 };

/**
 * Equal beginnings of prompts to equal workers, with a bound on their load: remembers nothing, so all routers agree as
 * far as they see the same load. Prompts that begin alike and part later all have one first choice.
 */
export class PrefixHash implements Policy {
  readonly #unkeyed: Policy;

  constructor(unkeyed: Policy) {
    this.#unkeyed = unkeyed;
  }

  choose<C extends Candidate>(choice: WorkerChoice<C>, request: PolicyRequest): C {
    const key = request.prompt?.upTo(KEY_BYTES);
    if (key === undefined) return this.#unkeyed.choose(choice, request);
    const { candidates, usable } = choice;
    let inFlight = 1;
    for (const candidate of usable) inFlight += candidate.inFlight;
    const mean = inFlight / usable.length;
    const most = Math.max(MAX_LOAD.times * mean, mean + MAX_LOAD.more);
    return highestRanked(candidates, key, (candidate) => candidate.inFlight < most) ??
      this.#unkeyed.choose(choice, request);
  }
}
