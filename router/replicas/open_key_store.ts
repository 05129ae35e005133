import { hostname } from "node:os";
import process from "node:process";
import type { Clock } from "../../base/clock.ts";
import { logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { LimitStoreConfig } from "../../cfgs/schema/limits.ts";
import { connectValkey } from "./connect_valkey.ts";
import { ValkeyStore } from "./valkey_store.ts";

interface OpenOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** The store of a configuration; its connection is made, and made anew, in the background. */
export function openKeyStore(config: LimitStoreConfig, { clock, random, signal }: OpenOptions): ValkeyStore {
  const { url, username, password_env: variable, prefix, replicas } = config;
  const password = variable === undefined ? undefined : process.env[variable];
  return new ValkeyStore({
    clock,
    random,
    signal,
    log: logger("http"),
    connection: connectValkey({ url, username, password }),
    server: url,
    prefix,
    replica: `${hostname()}-${process.pid}`,
    replicas,
  });
}
