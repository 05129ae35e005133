import type { Clock } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Random } from "../../base/random.ts";
import type { ModelConfig, WorkerConfig } from "../../cfgs/schema.ts";
import type { Placement, PlacementHint } from "../engines/engine.ts";
import type { Transport } from "../transport/transport.ts";
import { leastInFlight } from "./policies/least_in_flight.ts";
import type { Policy } from "./policies/policy.ts";
import { roundRobin } from "./policies/round_robin.ts";
import type { Pool, WorkerStatus } from "./pool_types.ts";
import { StickyKeys } from "./sticky.ts";
import { Worker } from "./worker.ts";
import type { WorkerAccess } from "./worker_access.ts";

const POLICIES: Record<ModelConfig["policy"], Policy> = {
  round_robin: roundRobin,
  least_in_flight: leastInFlight,
};
const STICKY_KEYS = 65_536;

/** What `createPool` needs. */
export interface PoolOptions {
  /** The model's public name. */
  readonly model: string;
  readonly config: ModelConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly log: Logger;
}

/** A pool together with what its owner may do to it. */
export interface ManagedPool extends Pool {
  /** Checks the workers' health until the signal aborts. Call it once. */
  start(signal: AbortSignal): void;
  /** Adds a worker and returns its id. Throws 409 `worker_exists` for a URL that is there already. */
  addWorker(access: WorkerAccess): string;
  /** Forgets a worker; requests in flight there end undisturbed. False when there is none of that id. */
  removeWorker(id: string): boolean;
  /** Starts or ends draining: a draining worker gets no new work. False when there is none of that id. */
  setDraining(id: string, draining: boolean): boolean;
}

/** Makes the pool of a model's workers. Throws 500 `unsupported_worker` for prefill/decode pairs. */
export function createPool(options: PoolOptions): ManagedPool {
  const pool = new WorkerPool(options);
  for (const worker of options.config.workers) pool.addWorker(accessOf(options.model, worker));
  return pool;
}

function accessOf(model: string, worker: WorkerConfig): WorkerAccess {
  if (typeof worker === "string") return { url: worker };
  if ("url" in worker) {
    return { url: worker.url, ...(worker.api_key === undefined ? {} : { apiKey: worker.api_key }) };
  }
  throw new CanopyError(
    `Cannot use the pair ${worker.prefill} and ${worker.decode} for model ${model}: ` +
      "prefill/decode pairs are not served yet; give whole workers by their URL",
    { code: "unsupported_worker", status: 500, param: `models.${model}.workers` },
  );
}

class WorkerPool implements ManagedPool {
  readonly model: string;
  readonly #options: PoolOptions;
  readonly #policy: Policy;
  readonly #sticky = new StickyKeys(STICKY_KEYS);
  readonly #watches = new Map<string, AbortController>();
  /** In the order of their ordinals. */
  #workers: Worker[] = [];
  #joined = 0;
  #lastOrdinal: number;
  #signal: AbortSignal | undefined;

  constructor(options: PoolOptions) {
    this.model = options.model;
    this.#options = options;
    this.#policy = POLICIES[options.config.policy];
    // Several routers in front of the same workers must not all start with the first one.
    this.#lastOrdinal = options.random.int(Math.max(1, options.config.workers.length)) - 1;
  }

  get ready(): boolean {
    return this.#workers.some((worker) => worker.inService);
  }

  workers(): readonly WorkerStatus[] {
    return this.#workers.map((worker) => worker.status);
  }

  headers(workerId: string): Readonly<Record<string, string>> {
    return this.#find(workerId)?.headers ?? {};
  }

  place(hint: PlacementHint): Placement {
    const usable = this.#usable(hint);
    const limit = this.#options.config.max_in_flight;
    const candidates = usable.filter((worker) => worker.inFlight < limit);
    if (candidates.length === 0) throw this.#noWorker(hint, usable.length > 0);
    return this.#choose(usable, candidates, hint.stickyKey).take();
  }

  start(signal: AbortSignal): void {
    this.#signal = signal;
    for (const worker of this.#workers) this.#watch(worker);
  }

  addWorker(access: WorkerAccess): string {
    if (this.#workers.some((worker) => worker.url === access.url)) {
      throw new CanopyError(`Cannot add worker ${access.url}: model ${this.model} has it already`, {
        code: "worker_exists",
        status: 409,
        param: "url",
      });
    }
    const ordinal = this.#joined++;
    const { config, clock, transport } = this.#options;
    const worker = new Worker({
      id: `${this.model}.w${ordinal + 1}`,
      ordinal,
      access,
      config,
      clock,
      transport,
      onChange: (changed) => this.#logChange(changed),
    });
    this.#workers.push(worker);
    this.#watch(worker);
    return worker.id;
  }

  removeWorker(id: string): boolean {
    const worker = this.#find(id);
    if (worker === undefined) return false;
    this.#workers = this.#workers.filter((other) => other !== worker);
    this.#watches.get(id)?.abort();
    return true;
  }

  setDraining(id: string, draining: boolean): boolean {
    const worker = this.#find(id);
    if (worker === undefined) return false;
    worker.draining = draining;
    return true;
  }

  /**
   * Workers that may be used, load aside. A breaker steers work to other workers; where all breakers are open it
   * has nowhere to steer to, and refusing everything would only add an outage to an illness.
   */
  #usable(hint: PlacementHint): Worker[] {
    const inService = this.#workers.filter((worker) => worker.inService && !hint.exclude?.has(worker.id));
    const admitted = inService.filter((worker) => worker.breaker.admits);
    return admitted.length > 0 ? admitted : inService;
  }

  #choose(usable: readonly Worker[], candidates: readonly Worker[], stickyKey: string | undefined): Worker {
    const homeId = stickyKey === undefined ? undefined : this.#sticky.get(stickyKey);
    const home = homeId === undefined ? undefined : usable.find((worker) => worker.id === homeId);
    if (home !== undefined && candidates.includes(home)) return home;
    const chosen = this.#policy(candidates, this.#lastOrdinal);
    this.#lastOrdinal = chosen.ordinal;
    // A home that is only full for the moment stays the key's home: its prefix cache is there.
    if (stickyKey !== undefined && home === undefined) this.#sticky.set(stickyKey, chosen.id);
    return chosen;
  }

  #noWorker(hint: PlacementHint, full: boolean): CanopyError {
    const total = this.#workers.length;
    const excluded = hint.exclude?.size ?? 0;
    if (full) {
      return new CanopyError(
        `Cannot place the request: every usable worker of model ${this.model} has ` +
          `${this.#options.config.max_in_flight} requests in flight; try again later`,
        { code: "no_worker", status: 503, retryAfterSeconds: 1 },
      );
    }
    const states = this.#workers.map((worker) => worker.status.health);
    const reason = total === 0
      ? "it has no workers; add one to the configuration"
      : excluded > 0 && this.ready
      ? "the request has failed on every healthy one"
      : `of its ${total} worker${total === 1 ? "" : "s"} ` +
        `${states.filter((state) => state === "unhealthy").length} are unhealthy and ` +
        `${states.filter((state) => state === "draining").length} are draining`;
    return new CanopyError(`Cannot place the request: model ${this.model} has no usable worker: ${reason}`, {
      code: "no_worker",
      status: 503,
    });
  }

  #find(id: string): Worker | undefined {
    return this.#workers.find((worker) => worker.id === id);
  }

  #watch(worker: Worker): void {
    const signal = this.#signal;
    if (signal === undefined || signal.aborted) return;
    const controller = new AbortController();
    const onAbort = () => controller.abort();
    signal.addEventListener("abort", onAbort, { once: true });
    this.#watches.set(worker.id, controller);
    worker.watch(controller.signal).finally(() => {
      signal.removeEventListener("abort", onAbort);
      this.#watches.delete(worker.id);
    });
  }

  #logChange(worker: Worker): void {
    const { id, url, health, lastError } = worker.status;
    const fields = { model: this.model, worker: id, url, health, error: lastError };
    if (health === "unhealthy") {
      this.#options.log.warning("Worker {worker} of model {model} is out of service: {error}", fields);
    } else this.#options.log.info("Worker {worker} of model {model} is {health}", fields);
  }
}
