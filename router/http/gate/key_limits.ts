import type { Clock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import type { LimitsConfig } from "../../../cfgs/schema/limits.ts";
import { type KeyCounts, type KeyTable, LocalKeyTable } from "../../shared/key_counts.ts";
import type { Run } from "../../moa/run/run.ts";
import { EVERYBODY, keyHash } from "./auth.ts";

const log = logger("http");

/** Limits of a key as they are in effect. */
interface Limits {
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
  readonly maxConcurrent: number | undefined;
}

/** A limit as errors and metrics call it. */
type LimitName = "requests" | "tokens" | "concurrent";

/** One limited key. */
interface LimitedKey {
  /** Shown to the operator: never the key. */
  readonly name: string;
  /** The same in an error's sentence. */
  readonly shown: string;
  readonly limits: Limits;
  readonly counts: KeyCounts;
}

/** Options of `KeyLimits`. */
export interface KeyLimitsOptions {
  readonly limits: LimitsConfig;
  readonly clock: Clock;
  /** What keys have used until now. */
  readonly table: KeyTable;
  readonly metrics: { keyRefused(key: string, limit: LimitName): void };
}

/** The limits on requests and tokens of each API key, over all threads and configurations. */
export class KeyLimits {
  readonly #options: KeyLimitsOptions;
  readonly #named = new Map<string, readonly [name: string, limits: Limits]>();
  readonly #default: Limits;
  readonly #keys = new Map<string, LimitedKey>();

  constructor(options: KeyLimitsOptions) {
    this.#options = options;
    const { default: common, keys } = options.limits;
    this.#default = limitsOf(common);
    for (const [name, { api_key: key, ...own }] of Object.entries(keys)) {
      if (key !== undefined) this.#named.set(keyHash(key), [name, limitsOf({ ...common, ...stated(own) })]);
    }
  }

  /** The pass of a request; undefined where nothing limits its key. `caller`: as `Keys.callerOf` names it. */
  passOf(caller: string | undefined): KeyPass | undefined {
    if (caller === undefined) return undefined;
    let key = this.#keys.get(caller);
    if (key === undefined) this.#keys.set(caller, key = this.#keyOf(caller));
    const { requestsPerMinute, tokensPerMinute, maxConcurrent } = key.limits;
    const isLimited = (requestsPerMinute ?? tokensPerMinute ?? maxConcurrent) !== undefined;
    return isLimited ? new KeyPass(key, this.#options) : undefined;
  }

  #keyOf(caller: string): LimitedKey {
    const { table } = this.#options;
    const [name, limits] = this.#named.get(caller) ??
      [caller === EVERYBODY ? "everybody" : caller.slice(0, 8), this.#default];
    const shown = caller === EVERYBODY ? "all callers together" : `the API key ${name}`;
    const counts = table.of(caller);
    if (counts === undefined) {
      const message =
        "No room is left to count what the key {name} uses in all threads: each counts on its own";
      log.warning(`${message}; a restart helps`, { name });
    }
    return { name, shown, limits, counts: counts ?? new LocalKeyTable().of(caller) };
  }
}

/** One request of a limited key. */
export class KeyPass {
  readonly #key: LimitedKey;
  readonly #options: KeyLimitsOptions;
  #isInside = false;
  /** Wait after which a refused request may come again, in ms. */
  #waitMs: number | undefined;

  constructor(key: LimitedKey, options: KeyLimitsOptions) {
    this.#key = key;
    this.#options = options;
  }

  /** True where the tokens of the answer count. */
  get countsTokens(): boolean {
    return this.#key.limits.tokensPerMinute !== undefined;
  }

  /** Begins the request. Throws `rate_limit_exceeded` (429). */
  enter(): void {
    const { limits: { requestsPerMinute, tokensPerMinute, maxConcurrent }, counts } = this.#key;
    const nowMs = this.#nowMs;
    if (tokensPerMinute !== undefined && counts.tokens.count(nowMs) >= tokensPerMinute) {
      const waitMs = counts.tokens.waitMs(tokensPerMinute, nowMs);
      throw this.#refusal("tokens", `${many(tokensPerMinute, "token")} per minute`, waitMs);
    }
    // Without a limit it counts all the same: one may come while the request goes on.
    if (!counts.running.tryAdd(maxConcurrent ?? Infinity)) {
      throw this.#refusal("concurrent", `${many(maxConcurrent, "request")} at once`, undefined);
    }
    if (!counts.requests.tryAdd(requestsPerMinute ?? Infinity, nowMs)) {
      counts.running.add(-1);
      const waitMs = counts.requests.waitMs(requestsPerMinute ?? Infinity, nowMs);
      throw this.#refusal("requests", `${many(requestsPerMinute, "request")} per minute`, waitMs);
    }
    this.#isInside = true;
  }

  /** The request has ended. Calling it again, or without `enter`, does nothing. */
  leave(): void {
    if (!this.#isInside) return;
    this.#isInside = false;
    this.#key.counts.running.add(-1);
  }

  /** Tokens that were used for the request. */
  spend(tokens: number): void {
    if (tokens > 0) this.#key.counts.tokens.add(tokens, this.#nowMs);
  }

  /** Spends what a run has used, once it has ended. */
  follow(run: Pick<Run, "ended" | "usage">): void {
    void run.ended.then(() => {
      const { promptTokens, completionTokens } = run.usage();
      this.spend(promptTokens + completionTokens);
    });
  }

  /** Headers of the answer: limits, what is left of them, and when all of it is there again, as OpenAI's API has them. */
  headers(): Record<string, string> {
    const { limits: { requestsPerMinute, tokensPerMinute }, counts } = this.#key;
    const headers: Record<string, string> = {};
    const nowMs = this.#nowMs;
    for (const [what, limit] of [["requests", requestsPerMinute], ["tokens", tokensPerMinute]] as const) {
      if (limit === undefined) continue;
      const left = Math.max(0, limit - counts[what].count(nowMs));
      headers[`x-ratelimit-limit-${what}`] = String(limit);
      headers[`x-ratelimit-remaining-${what}`] = String(left);
      headers[`x-ratelimit-reset-${what}`] = duration(counts[what].waitMs(1, nowMs));
    }
    if (this.#waitMs !== undefined) headers["retry-after-ms"] = String(Math.ceil(this.#waitMs));
    return headers;
  }

  get #nowMs(): number {
    const { clock } = this.#options;
    return clock.unixEpochMs + clock.now();
  }

  #refusal(limit: LimitName, value: string, waitMs: number | undefined): CanopyError {
    const { name, shown } = this.#key;
    this.#options.metrics.keyRefused(name, limit);
    this.#waitMs = waitMs ?? 1_000;
    const when = waitMs === undefined ? "when one of them has ended" : `in ${duration(waitMs)}`;
    return new CanopyError(`The limit of ${shown} is reached: ${value}; try again ${when}`, {
      code: "rate_limit_exceeded",
      status: 429,
      retryAfterSeconds: this.#waitMs / 1000,
    });
  }
}

function many(count: number | undefined, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

type StatedLimits = LimitsConfig["default"];

/** The limits that are stated, so that those of `default` stay where they are not. */
function stated(own: StatedLimits): StatedLimits {
  return Object.fromEntries(Object.entries(own).filter(([, limit]) => limit !== undefined));
}

function limitsOf(config: StatedLimits): Limits {
  const numberOf = (limit: number | false | undefined) => limit === false ? undefined : limit;
  return {
    requestsPerMinute: numberOf(config.requests_per_minute),
    tokensPerMinute: numberOf(config.tokens_per_minute),
    maxConcurrent: numberOf(config.max_concurrent),
  };
}

/** A time as OpenAI's headers write it: `0s`, `250ms`, `12s`, `1m1s`. */
function duration(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (ms > 0 && ms < 1000) return `${Math.ceil(ms)}ms`;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
