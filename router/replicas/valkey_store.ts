import { z } from "zod";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { SecondCount } from "../shared/minute_window.ts";
import type { KeyStore, StoreEntry, StoreLimits } from "./key_store.ts";
import { ENTER_SCRIPT, KEEP_SCRIPT, SPEND_SCRIPT } from "./store_scripts.ts";

/** Sends a command; rejects with what the store or the connection says. */
export type SendCommand = (command: readonly string[]) => Promise<unknown>;

/** A connection to a Valkey or Redis server that comes back by itself. */
export interface StoreConnection {
  readonly send: SendCommand;
  close(): void;
}

/** Options of `ValkeyStore`. */
export interface ValkeyStoreOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly connection: StoreConnection;
  /** The server as logs call it. */
  readonly server: string;
  /** What all keys in the store begin with: those who share it count together. */
  readonly prefix: string;
  /** This replica's own name, the same in all its threads. */
  readonly replica: string;
  /** For names of requests. */
  readonly random: Random;
  /** Replicas there are as long as the store has not said so. */
  readonly replicas: number;
  /** Ends the connection; the requests under way no longer count then. */
  readonly signal: AbortSignal;
  /** A command without an answer for so long counts as failed; 250 ms by default. */
  readonly answerMs?: number | undefined;
}

const ANSWER_MS = 250;
/** Time between two signs of life while the store answers, and while it does not. */
const SIGN_MS = 5_000;
const AWAY_SIGN_MS = 1_000;
/** So long a connection may take at the start, which is no outage yet; it is asked again and again meanwhile. */
const START_MS = 3_000;
const START_SIGN_MS = 50;
/** A replica that is silent for so long has gone, and what it had under way with it. */
const GONE_MS = 15_000;

const enteredSchema = z.tuple([
  z.enum(["ok", "requests", "tokens", "concurrent"]),
  z.number(),
  z.array(z.number()),
  z.array(z.number()),
]);

/** Counts of keys in a Valkey or Redis server. While that does not answer, it is asked for signs of life alone. */
export class ValkeyStore implements KeyStore {
  readonly #options: ValkeyStoreOptions;
  /** Names of the requests under way, by key. */
  readonly #running = new Map<string, Set<string>>();
  /** Begins the names of this store's requests. */
  readonly #own: string;
  #requests = 0;
  #replicas: number;
  /** Undefined before the first answer, or failure. */
  #isHere: boolean | undefined;

  constructor(options: ValkeyStoreOptions) {
    this.#options = options;
    this.#replicas = options.replicas;
    this.#own = options.random.hex(16);
    options.signal.addEventListener("abort", () => options.connection.close(), { once: true });
    void this.#signs();
  }

  get isHere(): boolean {
    return this.#isHere === true;
  }

  get replicas(): number {
    return this.#replicas;
  }

  async enter(hash: string, limits: StoreLimits): Promise<StoreEntry | undefined> {
    if (this.#isHere === false) return undefined;
    const name = `${this.#own}/${this.#requests++}`;
    const numbers = [limits.requestsPerMinute, limits.tokensPerMinute, limits.maxConcurrent];
    const keys = ["requests", "tokens", "running"].map((what) => this.#keyOf(hash, what));
    const of = numbers.map((limit) => String(limit ?? -1));
    try {
      const command = ["EVAL", ENTER_SCRIPT, String(keys.length), ...keys, ...of, name, String(GONE_MS)];
      const [outcome, nowMs, requests, tokens] = enteredSchema.parse(await this.#ask(command));
      // Not before: a sign of life would put one that is refused among those under way.
      if (outcome === "ok") this.#add(hash, name);
      const leave = () => {
        if (this.#forget(hash, name)) this.#remove(hash, name);
      };
      return { outcome, nowMs, requests: secondsOf(requests), tokens: secondsOf(tokens), leave };
    } catch (error) {
      this.#lost(error);
      // It may have been counted all the same.
      this.#remove(hash, name);
      return undefined;
    }
  }

  spend(hash: string, tokens: number): void {
    if (!this.isHere) return;
    const command = ["EVAL", SPEND_SCRIPT, "1", this.#keyOf(hash, "tokens"), String(tokens)];
    this.#ask(command).catch((error) => this.#lost(error));
  }

  #remove(hash: string, name: string): void {
    const command = ["ZREM", this.#keyOf(hash, "running"), name];
    this.#ask(command).catch((error) => this.#lost(error));
  }

  #add(hash: string, name: string): void {
    const names = this.#running.get(hash);
    if (names === undefined) this.#running.set(hash, new Set([name]));
    else names.add(name);
  }

  #forget(hash: string, name: string): boolean {
    const names = this.#running.get(hash);
    const isKnown = names?.delete(name) === true;
    if (names?.size === 0) this.#running.delete(hash);
    return isKnown;
  }

  /** Says again and again that this replica is there, and which requests go on. */
  async #signs(): Promise<void> {
    const { clock, signal } = this.#options;
    const startMs = clock.now();
    while (!signal.aborted) {
      try {
        const count = await this.#keep(`${this.#options.prefix}:replicas`, [this.#options.replica]);
        for (const [hash, names] of this.#running) await this.#keep(this.#keyOf(hash, "running"), [...names]);
        this.#found(count);
      } catch (error) {
        if (this.#isHere !== undefined || clock.now() - startMs >= START_MS) this.#lost(error);
      }
      await clock.sleep(this.#signMs, signal).catch(() => {});
    }
  }

  get #signMs(): number {
    if (this.#isHere === undefined) return START_SIGN_MS;
    return this.#isHere ? SIGN_MS : AWAY_SIGN_MS;
  }

  async #keep(key: string, members: readonly string[]): Promise<number> {
    return z.number().parse(
      await this.#ask(["EVAL", KEEP_SCRIPT, "1", key, String(GONE_MS), ...members]),
    );
  }

  #ask(command: readonly string[]): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const { clock, connection, answerMs = ANSWER_MS } = this.#options;
    const answered = clock.timer(answerMs, () => reject(new Error(`no answer within ${answerMs} ms`)));
    connection.send(command).then(resolve, reject).finally(answered);
    return promise;
  }

  /** Keys of one caller lie on one server of a cluster: that is what the braces say. */
  #keyOf(hash: string, what: string): string {
    return `${this.#options.prefix}:{${hash}}:${what}`;
  }

  #found(replicas: number): void {
    this.#replicas = Math.max(1, replicas);
    if (this.#isHere === true) return;
    const { log, server } = this.#options;
    log.info("Limits of keys are counted in {server}; replicas there: {replicas}", { server, replicas });
    this.#isHere = true;
  }

  #lost(error: unknown): void {
    if (this.#isHere === false || this.#options.signal.aborted) return;
    this.#isHere = false;
    const { log, server } = this.#options;
    const message =
      "{server}, which counts what keys use, does not answer ({error}): until it does, this replica " +
      "counts alone and lets in one of {replicas} parts of each limit";
    log.warning(message, { server, error: messageOf(error), replicas: this.#replicas });
  }
}

/** A script answers with seconds and their counts by turns. */
function secondsOf(numbers: readonly number[]): SecondCount[] {
  return Array.from(
    { length: Math.floor(numbers.length / 2) },
    (_, at) => ({ second: numbers[2 * at]!, count: numbers[2 * at + 1]! }),
  );
}
