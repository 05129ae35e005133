import type { Clock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import type { LimitsConfig } from "../../../cfgs/schema/limits.ts";
import type { KeyStore, StoreEntry, StoreLimits } from "../../replicas/key_store.ts";
import { type KeyCounts, type KeyTable, LocalKeyTable } from "../../shared/key_counts.ts";
import { type MinuteCounts, MinuteView } from "../../shared/minute_window.ts";
import type { Run } from "../../moa/run/run.ts";
import { EVERYBODY, keyHash } from "./auth.ts";

const log = logger("http");

/** A limit as errors and metrics call it. */
type LimitName = "requests" | "tokens" | "concurrent";

/** One limited key. */
interface LimitedKey {
  /** Of the key, as `Keys.callerOf` names the caller. */
  readonly hash: string;
  /** Shown to the operator: never the key. */
  readonly name: string;
  /** The same in an error's sentence. */
  readonly shown: string;
  readonly limits: StoreLimits;
  readonly counts: KeyCounts;
}

/** Options of `KeyLimits`. */
export interface KeyLimitsOptions {
  readonly limits: LimitsConfig;
  readonly clock: Clock;
  /** What keys have used until now. */
  readonly table: KeyTable;
  /** What all replicas together count; absent where each counts on its own. */
  readonly store?: KeyStore | undefined;
  readonly metrics: { keyRefused(key: string, limit: LimitName): void };
}

/** The limits on requests and tokens of each API key, over all threads and configurations, and with a store all replicas. */
export class KeyLimits {
  readonly #options: KeyLimitsOptions;
  readonly #named = new Map<string, readonly [name: string, limits: StoreLimits]>();
  readonly #default: StoreLimits;
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
    return { hash: caller, name, shown, limits, counts: counts ?? new LocalKeyTable().of(caller) };
  }
}

/** One request of a limited key. */
export class KeyPass {
  readonly #key: LimitedKey;
  readonly #options: KeyLimitsOptions;
  #isInside = false;
  /** What the store said of it. */
  #entry: StoreEntry | undefined;
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

  /**
   * Begins the request; undefined when that is done at once. Throws, or rejects with, `rate_limit_exceeded` (429).
   * A store that does not answer leaves each replica its part of the limits.
   */
  enter(): Promise<void> | undefined {
    const { store } = this.#options;
    if (store?.isHere !== true) return void this.#enterHere(this.#partOf(store?.replicas ?? 1));
    return store.enter(this.#key.hash, this.#key.limits).then((entry) => {
      if (entry === undefined) this.#enterHere(this.#partOf(store.replicas));
      else this.#enterByStore(entry);
    });
  }

  /** The request has ended. Calling it again, or without `enter`, does nothing. */
  leave(): void {
    if (!this.#isInside) return;
    this.#isInside = false;
    this.#key.counts.running.add(-1);
    this.#entry?.leave();
  }

  /** Tokens that were used for the request. */
  spend(tokens: number): void {
    if (tokens <= 0) return;
    this.#key.counts.tokens.add(tokens, this.#nowMs);
    this.#options.store?.spend(this.#key.hash, tokens);
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
    const { requestsPerMinute, tokensPerMinute } = this.#key.limits;
    const headers: Record<string, string> = {};
    const { requests, tokens, nowMs } = this.#seen();
    for (
      const [what, limit, counts] of [
        ["requests", requestsPerMinute, requests],
        ["tokens", tokensPerMinute, tokens],
      ] as const
    ) {
      if (limit === undefined) continue;
      headers[`x-ratelimit-limit-${what}`] = String(limit);
      headers[`x-ratelimit-remaining-${what}`] = String(Math.max(0, limit - counts.count(nowMs)));
      headers[`x-ratelimit-reset-${what}`] = duration(counts.waitMs(1, nowMs));
    }
    if (this.#waitMs !== undefined) headers["retry-after-ms"] = String(Math.ceil(this.#waitMs));
    return headers;
  }

  /** What counts for the key: as the store saw it when the request began, else what this replica has counted. */
  #seen(): { readonly requests: MinuteCounts; readonly tokens: MinuteCounts; readonly nowMs: number } {
    if (this.#entry === undefined) return { ...this.#key.counts, nowMs: this.#nowMs };
    const { requests, tokens, nowMs } = this.#entry;
    return { requests: new MinuteView(requests), tokens: new MinuteView(tokens), nowMs };
  }

  /** Begins by the counts of this replica alone, which may use so many requests and tokens. */
  #enterHere({ requestsPerMinute, tokensPerMinute, maxConcurrent }: StoreLimits): void {
    const { counts } = this.#key;
    const nowMs = this.#nowMs;
    if (tokensPerMinute !== undefined && counts.tokens.count(nowMs) >= tokensPerMinute) {
      throw this.#refusal("tokens", tokensPerMinute, counts.tokens.waitMs(tokensPerMinute, nowMs));
    }
    // Without a limit it counts all the same: one may come while the request goes on.
    if (!counts.running.tryAdd(maxConcurrent ?? Infinity)) {
      throw this.#refusal("concurrent", maxConcurrent, undefined);
    }
    if (!counts.requests.tryAdd(requestsPerMinute ?? Infinity, nowMs)) {
      counts.running.add(-1);
      const waitMs = counts.requests.waitMs(requestsPerMinute ?? Infinity, nowMs);
      throw this.#refusal("requests", requestsPerMinute, waitMs);
    }
    this.#isInside = true;
  }

  /** Begins as the store says. What this replica counts besides is what it goes on with should the store leave. */
  #enterByStore(entry: StoreEntry): void {
    const { limits, counts } = this.#key;
    this.#entry = entry;
    const { requests, tokens, nowMs } = this.#seen();
    switch (entry.outcome) {
      case "ok":
        break;
      case "concurrent":
        throw this.#refusal("concurrent", limits.maxConcurrent, undefined);
      case "tokens": {
        const limit = limits.tokensPerMinute;
        throw this.#refusal("tokens", limit, tokens.waitMs(limit ?? Infinity, nowMs));
      }
      case "requests": {
        const limit = limits.requestsPerMinute;
        throw this.#refusal("requests", limit, requests.waitMs(limit ?? Infinity, nowMs));
      }
    }
    counts.requests.add(1, this.#nowMs);
    counts.running.add(1);
    this.#isInside = true;
  }

  /** The limits of one of so many replicas that cannot count together; at least 1 of each. */
  #partOf(replicas: number): StoreLimits {
    const part = (limit: number | undefined) => limit && Math.max(1, Math.floor(limit / replicas));
    const { requestsPerMinute, tokensPerMinute, maxConcurrent } = this.#key.limits;
    return {
      requestsPerMinute: part(requestsPerMinute),
      tokensPerMinute: part(tokensPerMinute),
      maxConcurrent: part(maxConcurrent),
    };
  }

  get #nowMs(): number {
    const { clock } = this.#options;
    return clock.unixEpochMs + clock.now();
  }

  #refusal(limit: LimitName, value: number | undefined, waitMs: number | undefined): CanopyError {
    const { name, shown } = this.#key;
    this.#options.metrics.keyRefused(name, limit);
    this.#waitMs = waitMs ?? 1_000;
    const when = waitMs === undefined ? "when one of them has ended" : `in ${duration(waitMs)}`;
    return new CanopyError(
      `The limit of ${shown} is reached: ${limitText(limit, value)}; try again ${when}`,
      {
        code: "rate_limit_exceeded",
        status: 429,
        retryAfterSeconds: this.#waitMs / 1000,
      },
    );
  }
}

function limitText(limit: LimitName, value: number | undefined): string {
  if (limit === "concurrent") return `${many(value, "request")} at once`;
  return `${many(value, limit === "tokens" ? "token" : "request")} per minute`;
}

function many(count: number | undefined, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

type StatedLimits = LimitsConfig["default"];

/** The limits that are stated, so that those of `default` stay where they are not. */
function stated(own: StatedLimits): StatedLimits {
  return Object.fromEntries(Object.entries(own).filter(([, limit]) => limit !== undefined));
}

function limitsOf(config: StatedLimits): StoreLimits {
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
