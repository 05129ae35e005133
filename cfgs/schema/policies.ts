import { z } from "zod";

/** The ways to choose a worker; each has a file in `router/pool/policies/`. */
export const POLICY_NAMES = [
  "cache_aware",
  "prefix_hash",
  "consistent_hashing",
  "manual",
  "least_load",
  "power_of_two",
  "round_robin",
  "random",
  "bucket",
] as const;

export type PolicyName = (typeof POLICY_NAMES)[number];

/** The policy where nothing is said, as of SGLang's routers. */
export const DEFAULT_POLICY: PolicyName = "cache_aware";

/** `policy`, `prefill_policy` and `decode_policy` of a model. */
export const policySchemas = {
  policy: z.enum(POLICY_NAMES).default(DEFAULT_POLICY).describe(
    "How the worker of a request is chosen; of pairs both halves",
  ),
  prefill_policy: z.enum(POLICY_NAMES).optional().describe("Of pairs, how the prefill server is chosen"),
  decode_policy: z.enum(POLICY_NAMES).optional().describe("Of pairs, how the decode server is chosen"),
};
