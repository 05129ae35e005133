import { z } from "zod";

/** Limits of a key; what one does not say stands in `default`, and false there lifts it. */
const keyLimits = {
  requests_per_minute: z.union([z.int().min(1).max(1e9), z.literal(false)]).optional().describe(
    "Requests that may begin within any minute; false: as many as come",
  ),
  tokens_per_minute: z.union([z.int().min(1).max(1e9), z.literal(false)]).optional().describe(
    "Tokens of prompts and answers within a minute, after which nothing more may begin; false: any number",
  ),
  max_concurrent: z.union([z.int().min(1).max(1e9), z.literal(false)]).optional().describe(
    "Requests at once; false: any number",
  ),
};

const storeSchema = z.strictObject({
  url: z.string().refine((url) => /^(redis|valkey)s?:\/\/[^@/?#]+(\/\d+)?$/.test(url), {
    error:
      "must be redis://HOST:PORT, or rediss:// for TLS, with a number of a database behind it or none; " +
      "a name and a password stand in username and password_env",
  }).describe("A Valkey or Redis server: redis://HOST:PORT/DATABASE, rediss:// for TLS"),
  username: z.string().min(1).optional().describe("Name of an ACL user"),
  password_env: z.string().min(1).optional().describe("Environment variable that holds the password"),
  prefix: z.string().min(1).max(100).regex(/^[^{}\s]+$/, { error: "must hold no blanks and braces" }).default(
    "canopy",
  )
    .describe("Begins all that is kept there: replicas with the same one count together"),
  replicas: z.int().min(1).max(10_000).default(1).describe(
    "Replicas there are, for as long as the store has not said so: each goes on with its part of the limits without it",
  ),
});

/** A server in which replicas count together. */
export type LimitStoreConfig = z.infer<typeof storeSchema>;

/** Limits on what the holder of a key may ask for. */
export const limitsSchema = z.strictObject({
  default: z.strictObject(keyLimits).prefault({}).describe(
    "Of each API key, as far as it has no limits of its own; without API keys, of all callers together",
  ),
  keys: z.record(
    z.string().min(1),
    z.strictObject({
      api_key: z.string().min(1).optional().describe(
        "The bearer token; it need not stand in `api_keys`, too",
      ),
      api_key_env: z.string().min(1).optional().describe("Environment variable that holds it"),
      ...keyLimits,
    }),
  ).default({}).describe("API keys with limits of their own, by the name that errors and metrics call them"),
  store: storeSchema.optional().describe(
    "Where several replicas count together; without it each counts on its own",
  ),
});

export type LimitsConfig = z.infer<typeof limitsSchema>;

/** The API keys of a server: those of the list, and those that have limits of their own. */
export function apiKeysOf(
  { api_keys: list, limits }: {
    readonly api_keys: readonly string[];
    readonly limits?: Pick<LimitsConfig, "keys"> | undefined;
  },
): string[] {
  const own = Object.values(limits?.keys ?? {}).flatMap(({ api_key: key }) => key ?? []);
  return [...new Set([...list, ...own])];
}
