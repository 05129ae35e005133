import type { SecondCount } from "../shared/minute_window.ts";

/** Limits of a key; undefined: none. */
export interface StoreLimits {
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
  readonly maxConcurrent: number | undefined;
}

/** What the store said of a request that asked to begin. */
export interface StoreEntry {
  /** `ok`, or the limit that is reached; the request does not count then. */
  readonly outcome: "ok" | "requests" | "tokens" | "concurrent";
  /** The store's unix time in ms. */
  readonly nowMs: number;
  /** What all replicas together had counted by then, this request included if it may begin. */
  readonly requests: readonly SecondCount[];
  readonly tokens: readonly SecondCount[];
  /** Takes the request off those under way; calling it again does nothing. */
  readonly leave: () => void;
}

/** Counts of keys that several replicas of the router share. */
export interface KeyStore {
  /** True while it answers. */
  readonly isHere: boolean;
  /** Replicas that share it, by its last answer, at least 1. */
  readonly replicas: number;
  /** Begins a request of a key (the hash of it) if its limits let it; undefined where the store does not answer. */
  enter(hash: string, limits: StoreLimits): Promise<StoreEntry | undefined>;
  /** Counts tokens, as far as the store answers. */
  spend(hash: string, tokens: number): void;
}
