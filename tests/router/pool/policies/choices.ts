import { Random } from "../../../../base/random.ts";
import type { PolicyName } from "../../../../cfgs/schema/policies.ts";
import { createPolicy } from "../../../../router/pool/policies/create_policy.ts";
import type { Candidate, Policy, PolicyRequest } from "../../../../router/pool/policies/policy.ts";
import { PromptPrefix } from "../../../../router/pool/prompt_prefix.ts";
import { fc } from "../../../properties.ts";

/** A worker whose load a test sets. */
export interface TestWorker extends Candidate {
  inFlight: number;
}

/** Idle workers; `from`: the ordinal of the first one, for routers that have learnt of them in another order. */
export function idleWorkers(count: number, from = 0): TestWorker[] {
  return Array.from(
    { length: count },
    (_, i) => ({ ordinal: from + i, identity: 7919 * (i + 1), inFlight: 0 }),
  );
}

/** A policy as a router has it, without the memory of sticky keys. */
export function policyOf(name: PolicyName, seed = "test"): Policy {
  return createPolicy(name, { random: new Random(seed), lastOrdinal: -1 });
}

/** Chooses among workers that all have room. */
export function choose<C extends Candidate>(
  policy: Policy,
  workers: readonly C[],
  request: PolicyRequest = {},
): C {
  return policy.choose({ candidates: workers, usable: workers }, request);
}

/** A prompt of so many letters that begins as `prefix` tells and ends as `tail` tells. */
export function promptOf(prefix: string, bytes: number, tail = ""): PromptPrefix {
  return PromptPrefix.ofJson(`${lettersOf(prefix, bytes - tail.length)}${tail}`);
}

/** Letters that tell themselves apart from the first on. */
export function lettersOf(seed: string, count: number): string {
  return new Random(seed).hex(Math.max(0, count));
}

/** Workers of any ordinals, sorted, with something to do. */
export const candidateLists: fc.Arbitrary<Candidate[]> = fc.uniqueArray(fc.nat(30), {
  minLength: 1,
  maxLength: 8,
})
  .chain((ordinals) =>
    fc.tuple(
      ...ordinals.sort((a, b) => a - b).map((ordinal) =>
        fc.record({ ordinal: fc.constant(ordinal), identity: fc.nat(), inFlight: fc.nat(3) })
      ),
    )
  );
