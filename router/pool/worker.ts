import type { Clock } from "../../base/clock.ts";
import { fnv1a } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { Breaker } from "./breaker.ts";
import { type CheckResult, HealthChecker } from "./health.ts";
import type { PlacementOutcome } from "../worker/placement.ts";
import { type WorkerAccess, workerHeaders } from "../worker/worker_access.ts";

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
  readonly lastError: string | undefined;
}

/** Options of a `Worker`. */
export interface WorkerOptions {
  readonly id: string;
  readonly ordinal: number;
  readonly access: WorkerAccess;
  readonly config: ModelConfig;
  readonly clock: Clock;
  readonly transport: Transport;
  /** Called when the worker's health changes, or a new process serves in its place. */
  readonly onChange: (worker: Worker) => void;
}

/** One request's share of a worker. */
export interface WorkerShare {
  /** Gives it back and says how it went; false, and nothing happens, when it was given back before. */
  release(outcome: PlacementOutcome): boolean;
}

/** One server process: its load, its health and its breaker. */
export class Worker {
  readonly id: string;
  readonly ordinal: number;
  readonly access: WorkerAccess;
  readonly url: string;
  /** A hash of its address, by which all routers know it. */
  readonly identity: number;
  /** Lower-case headers that every request to it carries. */
  readonly headers: Readonly<Record<string, string>>;
  readonly breaker: Breaker;
  draining = false;
  #down: string | undefined;
  readonly #checker: HealthChecker;
  readonly #onChange: (worker: Worker) => void;
  #inFlight = 0;
  #served = 0;
  #failures = 0;
  #lastError: string | undefined;
  #lastHealth: WorkerStatus["health"] = "unknown";

  constructor(options: WorkerOptions) {
    const { config, clock } = options;
    this.id = options.id;
    this.ordinal = options.ordinal;
    this.access = options.access;
    this.url = options.access.url;
    this.identity = fnv1a(this.url);
    this.headers = workerHeaders(config, options.access);
    this.breaker = new Breaker({ clock, failures: config.breaker.failures, openMs: config.breaker.open_ms });
    this.#onChange = options.onChange;
    this.#checker = new HealthChecker({
      config,
      access: options.access,
      clock,
      transport: options.transport,
      onCheck: (result) => this.#onCheck(result),
    });
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** True for a worker that is not known to be ill and takes new work; its breaker and load are other questions. */
  get inService(): boolean {
    return !this.draining && this.#down === undefined && this.#checker.state.health !== "unhealthy";
  }

  get status(): WorkerStatus {
    return {
      id: this.id,
      url: this.url,
      role: this.access.role,
      health: this.draining
        ? "draining"
        : this.#down === undefined
        ? this.#checker.state.health
        : "unhealthy",
      bootstrapPort: this.access.bootstrapPort,
      breaker: this.breaker.state,
      inFlight: this.#inFlight,
      served: this.#served,
      failures: this.#failures,
      lastError: this.#down ?? this.#lastError,
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

  /** Counts a request here until it is given back. */
  take(): WorkerShare {
    const permit = this.breaker.begin();
    this.#inFlight++;
    let held = true;
    return {
      release: (outcome) => {
        if (!held) return false;
        held = false;
        this.#inFlight--;
        this.breaker.end(permit, outcome);
        this.#count(outcome);
        return true;
      },
    };
  }

  #count(outcome: PlacementOutcome): void {
    if (outcome === "ok") this.#served++;
    if (outcome !== "failed") return;
    this.#failures++;
    this.#lastError ??= "a request failed";
    this.#checker.poke();
  }

  #onCheck(result: CheckResult): void {
    this.#lastError = result;
    const { health } = this.#checker.state;
    if (health === this.#lastHealth) return;
    this.#lastHealth = health;
    this.#onChange(this);
  }
}
