import { fnv1a } from "../../../base/random.ts";
import type { Candidate, Policy, PolicyRequest, WorkerChoice } from "./policy.ts";
import { highestRanked } from "./rendezvous.ts";

/**
 * Equal keys to equal workers, by the key alone: all routers agree and none remembers anything. While its worker is
 * full a key goes to its second choice; a request without a key goes where `unkeyed` sends it.
 */
export class ConsistentHashing implements Policy {
  readonly placesKeys = true;
  readonly #unkeyed: Policy;

  constructor(unkeyed: Policy) {
    this.#unkeyed = unkeyed;
  }

  choose<C extends Candidate>(choice: WorkerChoice<C>, request: PolicyRequest): C {
    const { stickyKey } = request;
    const chosen = stickyKey === undefined ? undefined : highestRanked(choice.candidates, fnv1a(stickyKey));
    return chosen ?? this.#unkeyed.choose(choice, request);
  }
}
