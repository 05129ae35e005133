import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { type WorkerAccess, workerHeaders, workerUrl } from "../worker/worker_access.ts";

/** A worker under suspicion, or out of service, is asked at least this often. */
const SUSPECT_INTERVAL_MS = 1_000;
/** Shortest time between the starts of two checks, however many requests fail. */
const MIN_GAP_MS = 100;

/** Health of one worker as its checks have shown it. */
export type CheckedHealth = "unknown" | "healthy" | "unhealthy";

/** The result of one check: undefined is good, a sentence says what is wrong. */
export type CheckResult = string | undefined;

/** Checks in a row that change a worker's state. */
export interface HealthRules {
  readonly failures: number;
  readonly successes: number;
}

/** Counts checks into a state: `failures` bad ones in a row take a worker out, `successes` good ones bring it back. */
export class HealthState {
  #rules: HealthRules;
  #health: CheckedHealth = "unknown";
  #bad = 0;
  #good = 0;

  constructor(rules: HealthRules) {
    this.#rules = rules;
  }

  /** Goes by other rules from the next check on. */
  reconfigure(rules: HealthRules): void {
    this.#rules = rules;
  }

  get health(): CheckedHealth {
    return this.#health;
  }

  /** True when the last check was bad, or the worker is still out. */
  get suspect(): boolean {
    return this.#bad > 0 || this.#health === "unhealthy";
  }

  /** Starts anew, as for a worker never seen before. */
  forget(): void {
    this.#health = "unknown";
    this.#bad = 0;
    this.#good = 0;
  }

  record(good: boolean): void {
    this.#bad = good ? 0 : this.#bad + 1;
    this.#good = good ? this.#good + 1 : 0;
    // A worker never seen before is in with its first good check; `successes` is for those that come back.
    if (good && (this.#health === "unknown" || this.#good >= this.#rules.successes)) this.#health = "healthy";
    if (!good && this.#bad >= this.#rules.failures) this.#health = "unhealthy";
  }
}

/** Asks a worker whether it serves another model than it should: a sentence's end if so. Rejects when it cannot be asked. */
export type ModelCheck = (worker: WorkerAccess, signal: AbortSignal) => Promise<string | undefined>;

/** Options of a `HealthChecker`. */
export interface HealthCheckerOptions {
  readonly config: ModelConfig;
  readonly access: WorkerAccess;
  readonly clock: Clock;
  readonly transport: Transport;
  /** Asked beside each check; what it says counts when the worker is well. */
  readonly findWrongModel?: ModelCheck | undefined;
  /** Called after every check. `wrongModel`: what is wrong with the model that the worker serves. */
  readonly onCheck: (result: CheckResult, wrongModel: string | undefined) => void;
}

/**
 * Asks one worker again and again whether it can serve, one check at a time.
 * SGLang answers `/v1/models` while its scheduler is dead: only `/health` counts, and it takes a second.
 */
export class HealthChecker {
  readonly state: HealthState;
  readonly #options: HealthCheckerOptions;
  #config: ModelConfig;
  #access: WorkerAccess;
  #lastStartMs = -Infinity;
  #dueMs = 0;
  #wake: AbortController | undefined;
  #wrongModel: string | undefined;

  constructor(options: HealthCheckerOptions) {
    this.#options = options;
    this.#config = options.config;
    this.#access = options.access;
    this.state = new HealthState(options.config.health);
  }

  /** Goes on by other settings: checks at once, or not any more; then nothing is known of the worker. */
  reconfigure(config: ModelConfig, access: WorkerAccess): void {
    this.#config = config;
    this.#access = access;
    this.state.reconfigure(config.health);
    if (!config.health.enabled) {
      this.state.forget();
      this.#wrongModel = undefined;
    }
    this.#dueMs = this.#options.clock.now();
    this.#wake?.abort();
  }

  /** Checks until the signal aborts, the first time at once, unless there are to be no checks. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted && this.#config.health.enabled) {
      this.#lastStartMs = clock.now();
      const [result, wrongModel] = await Promise.all([this.#check(signal), this.#checkModel(signal)]);
      if (signal.aborted || !this.#config.health.enabled) return;
      this.state.record(result === undefined);
      if (result === undefined) this.#wrongModel = wrongModel;
      this.#options.onCheck(result, this.#wrongModel);
      const interval = this.state.suspect || this.#wrongModel !== undefined
        ? Math.min(SUSPECT_INTERVAL_MS, this.#config.health.interval_ms)
        : this.#config.health.interval_ms;
      this.#dueMs = clock.now() + interval;
      await this.#sleepUntilDue(signal);
    }
  }

  /** A request to the worker failed: check soon. During a check, or under suspicion, this changes nothing. */
  poke(): void {
    if (this.#wake === undefined || this.state.suspect) return;
    const soonMs = Math.max(this.#options.clock.now(), this.#lastStartMs + MIN_GAP_MS);
    if (soonMs >= this.#dueMs) return;
    this.#dueMs = soonMs;
    this.#wake.abort();
  }

  /** Another process serves at this address now: nothing is known of it, and it is asked at once. */
  restart(): void {
    this.state.forget();
    this.#dueMs = this.#options.clock.now();
    this.#wake?.abort();
  }

  async #sleepUntilDue(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted && clock.now() < this.#dueMs) {
      const wake = new AbortController();
      const onAbort = () => wake.abort();
      signal.addEventListener("abort", onAbort, { once: true });
      this.#wake = wake;
      await clock.sleep(this.#dueMs - clock.now(), wake.signal).catch(() => {});
      this.#wake = undefined;
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Without an answer the last one holds. */
  async #checkModel(signal: AbortSignal): Promise<string | undefined> {
    try {
      return await this.#options.findWrongModel?.(this.#access, signal);
    } catch {
      return this.#wrongModel;
    }
  }

  async #check(signal: AbortSignal): Promise<CheckResult> {
    const { clock, transport } = this.#options;
    const [config, access] = [this.#config, this.#access];
    const anyCompatible = config.engine === "openai";
    const path = config.health.path ?? (anyCompatible ? "/v1/models" : "/health");
    const timeoutMs = config.health.timeout_ms;
    const late = new Error(`GET ${path} gave no answer within ${timeoutMs} ms`);
    const deadline = deadlineSignal(clock, timeoutMs, late, signal);
    const asked = new AbortController();
    const onLimit = async () => {
      // An answer may lie in the socket: a loop that is behind fires its timers first.
      if (!signal.aborted) await clock.sleep(0);
      asked.abort(deadline.signal.reason);
    };
    if (deadline.signal.aborted) asked.abort(deadline.signal.reason);
    deadline.signal.addEventListener("abort", onLimit, { once: true });
    try {
      const response = await transport.send({
        method: "GET",
        url: workerUrl(access.url, path),
        lane: "control",
        headers: { ...workerHeaders(config, access), "accept-encoding": "identity" },
      }, asked.signal);
      for await (
        const _chunk of response.body
      ) { /* read to the end, so that the connection can be used again */ }
      const { status } = response;
      // Not every compatible server lists its models: any answer that is not its own failure shows life.
      const good = anyCompatible ? status < 500 : status >= 200 && status < 300;
      return good ? undefined : `GET ${path} was answered with status ${status}`;
    } catch (error) {
      return messageOf(error);
    } finally {
      deadline.release();
    }
  }
}
