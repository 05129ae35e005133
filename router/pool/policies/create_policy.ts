import type { Random } from "../../../base/random.ts";
import type { PolicyName } from "../../../cfgs/schema/policies.ts";
import { Bucket } from "./bucket.ts";
import { CacheAware } from "./cache_aware.ts";
import { ConsistentHashing } from "./consistent_hashing.ts";
import { LeastLoad } from "./least_load.ts";
import { Manual } from "./manual.ts";
import type { Policy } from "./policy.ts";
import { PowerOfTwo } from "./power_of_two.ts";
import { PrefixHash } from "./prefix_hash.ts";
import { RandomChoice } from "./random.ts";
import { RoundRobin } from "./round_robin.ts";

/** Options of `createPolicy`. */
export interface PolicyOptions {
  readonly random: Random;
  /** Ordinal from which rotations start; several routers before the same workers should not start alike. */
  readonly lastOrdinal: number;
}

const POLICIES: Record<PolicyName, (options: PolicyOptions) => Policy> = {
  cache_aware: (options) => new CacheAware(leastLoad(options)),
  prefix_hash: (options) => new PrefixHash(leastLoad(options)),
  consistent_hashing: (options) => new ConsistentHashing(leastLoad(options)),
  manual: leastLoad,
  least_load: leastLoad,
  power_of_two: ({ random }) => new PowerOfTwo(random),
  round_robin: ({ lastOrdinal }) => new RoundRobin(lastOrdinal),
  random: ({ random }) => new RandomChoice(random),
  bucket: ({ random }) => new Bucket(random),
};

/** Makes a policy; requests with a sticky key stay together under each of them. */
export function createPolicy(name: PolicyName, options: PolicyOptions): Policy {
  const policy = POLICIES[name](options);
  return policy.placesKeys === true ? policy : new Manual(policy);
}

function leastLoad({ lastOrdinal }: PolicyOptions): Policy {
  return new LeastLoad(lastOrdinal);
}
