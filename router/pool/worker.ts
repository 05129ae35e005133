import type { Clock } from "../../base/clock.ts";
import { fnv1a } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { Breaker, type BreakerRules } from "./breaker.ts";
import { type CheckedHealth, type CheckResult, HealthChecker, type ModelCheck } from "./health.ts";
import type { EngineError } from "../worker/engine_error.ts";
import type { PlacementOutcome, PrefillSide } from "../worker/placement.ts";
import { type WorkerAccess, workerHeaders } from "../worker/worker_access.ts";
import { lostWorker } from "../worker/worker_errors.ts";

/** What a worker has seen so far. */
export interface WorkerCounts {
  /** Requests and warms that were placed here. */
  readonly taken: number;
  readonly goodChecks: number;
  readonly badChecks: number;
  /** Answers that ended well since the last one that failed, and the other way round. */
  readonly goodInRow: number;
  readonly failedInRow: number;
  /** The breaker's changes of state, by `from to`. */
  readonly transitions: ReadonlyMap<string, number>;
}

/** State of one server process that serves a model. */
export interface WorkerStatus {
  readonly id: string;
  readonly url: string;
  /** Its half of the work, where prefill and decode are split. */
  readonly role?: "prefill" | "decode" | undefined;
  /** Port of a prefill server's bootstrap registry. */
  readonly bootstrapPort?: number | undefined;
  /** `unknown` until the first check; only `healthy` and `unknown` workers get work. */
  readonly health: "unknown" | "healthy" | "unhealthy" | "draining";
  readonly breaker: "closed" | "open" | "half_open";
  readonly inFlight: number;
  readonly served: number;
  readonly failures: number;
  readonly counts: WorkerCounts;
  readonly lastError: string | undefined;
  /** The model that it should serve and does not, by the name that requests give it. */
  readonly missingModel?: string | undefined;
}

/** Options of a `Worker`. */
export interface WorkerOptions {
  readonly id: string;
  readonly ordinal: number;
  readonly access: WorkerAccess;
  readonly config: ModelConfig;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly findWrongModel?: ModelCheck | undefined;
  /** True to prefer other workers until its first check. */
  readonly checkedFirst?: boolean | undefined;
  /** Called when the worker's health changes, or a new process serves in its place. */
  readonly onChange: (worker: Worker) => void;
}

/** One request's share of a worker. */
export interface WorkerShare {
  /** Gives it back and says how it went; false, and nothing happens, when it was given back before. */
  release(outcome: PlacementOutcome): boolean;
}

function breakerRules({ breaker: { failures, successes, open_ms } }: ModelConfig): BreakerRules {
  return { failures, successes, openMs: open_ms };
}

/** One server process: its load, its health and its breaker. */
export class Worker {
  readonly id: string;
  readonly ordinal: number;
  readonly url: string;
  /** A hash of its address, by which all routers know it. */
  readonly identity: number;
  readonly breaker: Breaker;
  draining = false;
  #access: WorkerAccess;
  #config: ModelConfig;
  #headers: Readonly<Record<string, string>>;
  readonly #checkedFirst: boolean;
  #down: string | undefined;
  #wrongModel: string | undefined;
  readonly #checker: HealthChecker;
  readonly #onChange: (worker: Worker) => void;
  /** What is told to those that the worker works for when it is taken out of service. */
  readonly #inFlight = new Set<(error: EngineError) => void>();
  #prefillSide: PrefillSide | undefined;
  #served = 0;
  #failures = 0;
  readonly #counts = { taken: 0, goodChecks: 0, badChecks: 0, goodInRow: 0, failedInRow: 0 };
  #lastError: string | undefined;
  #lastHealth: WorkerStatus["health"] = "unknown";

  constructor(options: WorkerOptions) {
    const { config, clock } = options;
    this.id = options.id;
    this.ordinal = options.ordinal;
    this.#access = options.access;
    this.#config = config;
    this.url = options.access.url;
    this.identity = fnv1a(this.url);
    this.#headers = workerHeaders(config, options.access);
    this.#checkedFirst = options.checkedFirst ?? false;
    this.breaker = new Breaker({ clock, ...breakerRules(config) });
    this.#onChange = options.onChange;
    this.#checker = new HealthChecker({
      config,
      access: options.access,
      clock,
      transport: options.transport,
      findWrongModel: options.findWrongModel,
      onCheck: (result, wrongModel) => this.#onCheck(result, wrongModel),
    });
  }

  /** Itself as a request to a pair names the half that prefills. */
  get prefillSide(): PrefillSide {
    return this.#prefillSide ??= {
      workerId: this.id,
      url: this.url,
      bootstrapHost: this.access.bootstrapHost ?? new URL(this.url).hostname,
      bootstrapPort: this.access.bootstrapPort,
    };
  }

  get access(): WorkerAccess {
    return this.#access;
  }

  /** Lower-case headers that every request to it carries. */
  get headers(): Readonly<Record<string, string>> {
    return this.#headers;
  }

  /** Goes on by other settings of its model; its state and what it works on stay. */
  reconfigure(config: ModelConfig): void {
    const { stranger, apiKey } = this.#access;
    // It was given its model's key; those of others stay.
    if (stranger === true && apiKey !== undefined && apiKey === this.#config.api_key) {
      this.#access = { ...this.#access, apiKey: config.api_key };
    }
    this.#config = config;
    this.#headers = workerHeaders(config, this.#access);
    this.breaker.reconfigure(breakerRules(config));
    this.#checker.reconfigure(config, this.#access);
  }

  /** True for a worker that has joined others and was not checked yet. */
  get unproven(): boolean {
    return this.#checkedFirst && this.#config.health.enabled && this.#checkedHealth === "unknown";
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** True for a worker that is not known to be ill and takes new work; its breaker and load are other questions. */
  get inService(): boolean {
    return !this.draining && this.#checkedHealth !== "unhealthy";
  }

  get status(): WorkerStatus {
    return {
      id: this.id,
      url: this.url,
      role: this.#access.role,
      health: this.draining ? "draining" : this.#checkedHealth,
      bootstrapPort: this.#access.bootstrapPort,
      breaker: this.breaker.state,
      inFlight: this.#inFlight.size,
      served: this.#served,
      failures: this.#failures,
      counts: { ...this.#counts, transitions: this.breaker.transitions },
      lastError: this.#down ?? this.#wrongModel ?? this.#lastError,
      missingModel: this.#wrongModel === undefined ? undefined : this.#config.model,
    };
  }

  /**
   * Takes the worker out of service at once, with the reason, because its process has ended; without one, a new
   * process serves there, of which nothing is known yet.
   */
  setDown(reason: string | undefined): void {
    const wasDown = this.#down !== undefined;
    this.#down = reason;
    if (reason !== undefined) {
      this.#lastHealth = "unhealthy";
      this.#onChange(this);
      this.#lose(reason);
    } else if (wasDown) {
      this.#lastError = undefined;
      this.breaker.reset();
      this.#checker.restart();
      this.#lastHealth = "unknown";
      this.#onChange(this);
    }
  }

  /** Checks the worker until the signal aborts. */
  watch(signal: AbortSignal): Promise<void> {
    return this.#checker.run(signal);
  }

  /** Counts a request here until it is given back; `onLost` is called when the worker is taken out of service by then. */
  take(onLost: (error: EngineError) => void): WorkerShare {
    const permit = this.breaker.begin();
    this.#counts.taken++;
    // A function of its own for each request, whatever the caller gives.
    const lost = (error: EngineError) => onLost(error);
    this.#inFlight.add(lost);
    return {
      release: (outcome) => {
        if (!this.#inFlight.delete(lost)) return false;
        this.breaker.end(permit, outcome);
        this.#count(outcome);
        return true;
      },
    };
  }

  #count(outcome: PlacementOutcome): void {
    const counts = this.#counts;
    if (outcome === "ok") {
      this.#served++;
      counts.goodInRow++;
      counts.failedInRow = 0;
    }
    if (outcome !== "failed") return;
    this.#failures++;
    counts.failedInRow++;
    counts.goodInRow = 0;
    this.#lastError ??= "a request failed";
    this.#checker.poke();
  }

  get #checkedHealth(): CheckedHealth {
    const isOut = this.#down !== undefined || this.#wrongModel !== undefined;
    return isOut ? "unhealthy" : this.#checker.state.health;
  }

  #onCheck(result: CheckResult, wrongModel: string | undefined): void {
    if (result === undefined) this.#counts.goodChecks++;
    else this.#counts.badChecks++;
    this.#lastError = result;
    this.#wrongModel = wrongModel;
    const health = this.#checkedHealth;
    if (health === this.#lastHealth) return;
    this.#lastHealth = health;
    this.#onChange(this);
    if (health === "unhealthy") this.#lose(this.status.lastError ?? "its checks fail");
  }

  /** Tells everybody whose request is here: no more is to be expected. Those who give up now may come back at once. */
  #lose(reason: string): void {
    const error = lostWorker(this, reason);
    for (const onLost of [...this.#inFlight]) onLost(error);
  }
}
