import { Bag, type Stay } from "../../base/bag.ts";
import type { Clock } from "../../base/clock.ts";
import { fnv1a } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { Breaker, type BreakerPermit, type BreakerRules } from "./breaker.ts";
import { type CheckedHealth, type CheckResult, HealthChecker, type ModelCheck } from "./health.ts";
import type { WorkerCells, WorkerReport } from "./pool_share.ts";
import type { EngineError } from "../worker/engine_error.ts";
import type { PlacementOutcome, PrefillSide } from "../worker/placement.ts";
import { LocalTally } from "../shared/tally.ts";
import { shownUrl, type WorkerAccess, workerHeaders, type WorkerRank } from "../worker/worker_access.ts";
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
  /** The rank of the server there that it is; absent: the server as a whole. */
  readonly rank?: WorkerRank | undefined;
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

/** The id of a worker's server, which goes for all ranks of it. */
export function serverIdOf({ id, rank }: Pick<WorkerStatus, "id" | "rank">): string {
  return rank === undefined ? id : id.slice(0, id.lastIndexOf("@"));
}

/** Options of a `Worker`. */
export interface WorkerOptions {
  readonly id: string;
  /** Id of its server, which all ranks of it have in common. */
  readonly server: string;
  readonly ordinal: number;
  readonly access: WorkerAccess;
  readonly config: ModelConfig;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly findWrongModel?: ModelCheck | undefined;
  /** True to prefer other workers until its first check. */
  readonly checkedFirst?: boolean | undefined;
  /** Absent where one thread does it all. */
  readonly shared?: WorkerShareOptions | undefined;
  /** Called when the worker's health changes, or a new process serves in its place. */
  readonly onChange: (worker: Worker) => void;
}

/** A worker's place in a router of several threads. */
export interface WorkerShareOptions {
  readonly slot: number;
  readonly cells: WorkerCells;
  /** Asks the thread that checks it to do so soon; absent in that thread. */
  readonly poke?: (() => void) | undefined;
}

/** Whoever the worker works for. */
export interface ShareHolder {
  /** Called when the worker is taken out of service. */
  lost?: ((error: EngineError) => void) | undefined;
}

/** One request's share of a worker. */
export interface WorkerShare {
  /** Gives it back and says how it went; false, and nothing happens, when it was given back before. */
  release(outcome: PlacementOutcome): boolean;
}

function breakerRules({ breaker: { failures, successes, open_ms } }: ModelConfig): BreakerRules {
  return { failures, successes, openMs: open_ms };
}
/** Places in a worker's cells of answers in a row. */
const GOOD = 0;
const FAILED = 1;

/** One server process: its load, its health and its breaker. */
export class Worker {
  readonly id: string;
  readonly server: string;
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
  readonly #shared: WorkerShareOptions | undefined;
  readonly #cells: WorkerCells;
  /** What another thread has found; undefined where this one checks. */
  #told: WorkerReport | undefined;
  /** Those that the worker works for. */
  readonly #inFlight = new Bag<ShareHolder>();
  #prefillSide: PrefillSide | undefined;
  readonly #checks = { good: 0, bad: 0 };
  #lastError: string | undefined;
  #lastHealth: WorkerStatus["health"] = "unknown";

  constructor(options: WorkerOptions) {
    const { config, clock } = options;
    this.id = options.id;
    this.server = options.server;
    this.ordinal = options.ordinal;
    this.#access = options.access;
    this.#config = config;
    this.url = options.access.url;
    this.identity = fnv1a(shownUrl(options.access));
    this.#headers = workerHeaders(config, options.access);
    this.#checkedFirst = options.checkedFirst ?? false;
    this.#shared = options.shared;
    this.#cells = options.shared?.cells ?? ownCells();
    this.breaker = new Breaker({ clock, ...breakerRules(config), cells: this.#cells.breaker });
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
      rank: this.access.rank,
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

  /** Requests here, of all threads. */
  get inFlight(): number {
    return this.#cells.inFlight.value;
  }

  /** Its place in the memory that threads share; -1 where there is one thread. */
  get slot(): number {
    return this.#shared?.slot ?? -1;
  }

  /** True for a worker that is not known to be ill and takes new work; its breaker and load are other questions. */
  get inService(): boolean {
    return !this.draining && this.#checkedHealth !== "unhealthy";
  }

  get status(): WorkerStatus {
    return {
      id: this.id,
      url: this.url,
      rank: this.#access.rank,
      role: this.#access.role,
      health: this.draining ? "draining" : this.#checkedHealth,
      bootstrapPort: this.#access.bootstrapPort,
      breaker: this.breaker.state,
      inFlight: this.inFlight,
      served: this.#cells.served.value,
      failures: this.#cells.failures.value,
      counts: this.#countsNow(),
      lastError: this.#down ?? this.#wrongModel ?? this.#lastError,
      missingModel: this.#wrongModel === undefined ? undefined : this.#config.model,
    };
  }

  /** The worker as the other threads are told of it. */
  get member(): WorkerReport {
    const { lastError, missingModel } = this.status;
    const { server, ordinal, slot, access, draining } = this;
    return {
      server,
      ordinal,
      slot,
      access,
      draining,
      checkedFirst: this.#checkedFirst,
      health: this.#checkedHealth,
      lastError,
      missingModel: missingModel !== undefined,
    };
  }

  /** Takes over what the thread that checks the worker has found. */
  follow(member: WorkerReport): void {
    const before = this.#checkedHealth;
    const wasDraining = this.draining;
    this.#told = member;
    this.draining = member.draining;
    this.#lastError = member.lastError;
    this.#wrongModel = member.missingModel ? member.lastError : undefined;
    const health = this.#checkedHealth;
    if (health === before && wasDraining === this.draining) return;
    this.#onChange(this);
    if (health === "unhealthy" && before !== health) this.#lose(member.lastError ?? "its checks fail");
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

  /**
   * Counts a request here until it is given back; the holder is told when the worker is taken out of service by then.
   * Undefined when another thread has just taken the last place.
   */
  take(holder: ShareHolder): WorkerShare | undefined {
    // Where other threads could take the last place; otherwise placers have seen to it.
    const limit = this.#shared === undefined ? Infinity : this.#config.max_in_flight;
    if (!this.#cells.inFlight.tryAdd(limit)) return undefined;
    const permit = this.breaker.begin();
    this.#cells.taken.add(1);
    return new Share(this, this.#inFlight.add(holder), permit);
  }

  /** Takes a share back; false, and nothing happens, when it was given back before. */
  giveBack({ stay, permit }: Share, outcome: PlacementOutcome): boolean {
    if (!this.#inFlight.remove(stay)) return false;
    this.#cells.inFlight.add(-1);
    this.breaker.end(permit, outcome);
    this.#count(outcome);
    return true;
  }

  #countsNow(): WorkerCounts {
    const { taken, inRow } = this.#cells;
    return {
      taken: taken.value,
      goodChecks: this.#checks.good,
      badChecks: this.#checks.bad,
      goodInRow: Atomics.load(inRow, GOOD),
      failedInRow: Atomics.load(inRow, FAILED),
      transitions: this.breaker.transitions,
    };
  }

  #count(outcome: PlacementOutcome): void {
    const { served, failures, inRow } = this.#cells;
    if (outcome === "ok") {
      served.add(1);
      Atomics.add(inRow, GOOD, 1);
      Atomics.store(inRow, FAILED, 0);
    }
    if (outcome !== "failed") return;
    failures.add(1);
    Atomics.add(inRow, FAILED, 1);
    Atomics.store(inRow, GOOD, 0);
    this.#lastError ??= "a request failed";
    if (this.#shared?.poke === undefined) this.#checker.poke();
    else this.#shared.poke();
  }

  /** A request failed in another thread. */
  poke(): void {
    this.#lastError ??= "a request failed";
    this.#checker.poke();
  }

  get #checkedHealth(): CheckedHealth {
    if (this.#told !== undefined) return this.#told.health;
    const isOut = this.#down !== undefined || this.#wrongModel !== undefined;
    return isOut ? "unhealthy" : this.#checker.state.health;
  }

  #onCheck(result: CheckResult, wrongModel: string | undefined): void {
    if (result === undefined) this.#checks.good++;
    else this.#checks.bad++;
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
    for (const holder of this.#inFlight.members()) holder.lost?.(error);
  }
}

/** One of very many: an object of a class has no function of its own. */
class Share implements WorkerShare {
  readonly stay: Stay<ShareHolder>;
  readonly permit: BreakerPermit;
  readonly #worker: Worker;

  constructor(worker: Worker, stay: Stay<ShareHolder>, permit: BreakerPermit) {
    this.#worker = worker;
    this.stay = stay;
    this.permit = permit;
  }

  release(outcome: PlacementOutcome): boolean {
    return this.#worker.giveBack(this, outcome);
  }
}

function ownCells(): WorkerCells {
  const [inFlight, taken, served, failures] = [
    new LocalTally(),
    new LocalTally(),
    new LocalTally(),
    new LocalTally(),
  ];
  return { inFlight, taken, served, failures, inRow: new Int32Array(2) };
}
